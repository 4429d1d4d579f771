"""Losses that tell a board about their terms: from a method, from a function, through a method that only tells."""

import torch
from torch import nn
from torch.nn import functional as F

import wandb


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.step = 0

    def tell(self, error, penalty):
        wandb.log({"error": error, "penalty": penalty}, step=self.step)

    def loss(self, x, y, weight):
        out = self.model(x)
        error = F.cross_entropy(out, y)
        penalty = weight * out.square().mean()

        # what is plotted
        self.tell(error.item(), penalty)
        with torch.no_grad():
            accuracy = (out.argmax(1) == y).float().mean()
            if self.step % 2 == 0:
                wandb.log({"accuracy": accuracy, "weight": weight}, step=self.step)
        return error + penalty

    def fit(self, batches, weight):
        for x, y in batches:
            # one update
            loss = self.loss(x, y, weight)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1


def distance(critic, real, fake, board):
    there, here = critic(real).mean(), critic(fake).mean()
    print("distance", there.item() - here.item())
    board.log({"real": there, "fake": here})
    return here - there


torch.manual_seed(0)
batches = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(3)]
Trainer(nn.Linear(4, 3), lr=0.1).fit(batches, weight=0.1)

critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for x, _ in batches:
    critic_optimizer.zero_grad()
    loss = distance(critic, x, torch.randn(8, 4), wandb) * 2
    loss.backward()
    critic_optimizer.step()
