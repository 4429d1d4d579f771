"""A variational autoencoder whose trainer anneals the weight of the divergence, and warms up the reconstruction."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Autoencoder(nn.Module):
    def __init__(self, features=16, latent=3):
        super().__init__()
        self.encoder = nn.Linear(features, 2 * latent)
        self.decoder = nn.Linear(latent, features)

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        return self.decoder(z), mean, log_var


class Ramp:
    """A weight that grows by a step at a time."""

    def __init__(self, start, steps):
        self.value, self.steps = start, steps

    def __call__(self):
        return self.value

    def advance(self):
        self.value = min(1.0, self.value + 1.0 / self.steps)


def warm_up(step, total=20):
    return 0.5 * (1 - math.cos(math.pi * min(1.0, step / total)))


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.ramp = Ramp(0.0, steps=40)
        self.free_bits = 0.5

    def divergence(self, mean, log_var):
        each = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp())
        return each.clamp(min=self.free_bits).sum(dim=1).mean()

    def loss(self, x):
        restored, mean, log_var = self.model(x)
        return F.mse_loss(restored, x) + self.ramp() * self.divergence(mean, log_var)

    def fit(self, batches):
        for step, x in enumerate(batches):
            loss = warm_up(step) * self.loss(x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.ramp.advance()
            self.free_bits *= 0.99
            print(f"{step}: {loss.item():.4f}")


def main():
    torch.manual_seed(0)
    data = torch.rand(30, 8, 16)
    Trainer(Autoencoder()).fit(data)


if __name__ == "__main__":
    main()
