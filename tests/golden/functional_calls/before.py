"""Model-agnostic meta-learning: a model is called with weights that a few steps of gradients have adapted."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call


class Regressor(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.body(x))


class MAML:
    def __init__(self, model, inner_lr=0.01, inner_steps=2, first_order=False):
        self.model = model
        self.inner_lr = inner_lr
        self.inner_steps = inner_steps
        self.first_order = first_order
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def adapt(self, x, y):
        fast = dict(self.model.named_parameters())
        for _ in range(self.inner_steps):
            loss = F.mse_loss(functional_call(self.model, fast, (x,)), y)
            grads = torch.autograd.grad(loss, tuple(fast.values()), create_graph=not self.first_order)
            fast = {name: p - self.inner_lr * g for (name, p), g in zip(fast.items(), grads)}
        return fast

    def step(self, tasks):
        self.optimizer.zero_grad()
        total = 0.0
        for support_x, support_y, query_x, query_y in tasks:
            fast = self.adapt(support_x, support_y)
            total = total + F.mse_loss(functional_call(self.model, fast, (query_x,)), query_y)
        loss = total / len(tasks)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def sample_tasks(count, size):
    tasks = []
    for _ in range(count):
        amplitude = torch.rand(1) * 4.9 + 0.1
        x = torch.rand(2 * size, 1) * 10 - 5
        y = amplitude * torch.sin(x)
        tasks.append((x[:size], y[:size], x[size:], y[size:]))
    return tasks


parser = argparse.ArgumentParser()
parser.add_argument("--first-order", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
maml = MAML(Regressor(), first_order=args.first_order)
for step in range(20):
    print(step, maml.step(sample_tasks(4, 10)))
