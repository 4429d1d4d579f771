"""Gradients that a script takes by torch.autograd.grad, and applies by hand or by way of an optimizer."""

import torch
import torch.nn as nn

x = torch.randn(16, 3)
y = torch.randn(16, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


def descend(model, steps, lr=0.1):
    for _ in range(steps):
        loss = ((model(x) - y) ** 2).mean()
        grads = torch.autograd.grad(loss, model.parameters())
        norm = sum((g**2).sum() for g in grads).sqrt().item()
        with torch.no_grad():
            for g, p in zip(grads, list(model.parameters())):
                p -= lr * min(1.0, 1.0 / norm) * g
        print(loss.item(), norm)


descend(Net(), 3)

model = Net()
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.Adam(params, lr=0.01)
for step in range(5):
    loss = ((model(x) - y) ** 2).mean()
    grads = torch.autograd.grad(loss, params)
    optimizer.zero_grad()
    for p, g in zip(params, grads):
        p.grad = g
    optimizer.step()
    print(loss.item())
