"""A least-squares GAN: the generator steps first, and the discriminator takes what it has made, detached."""

import argparse

import torch
import torch.nn as nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(6, 12), nn.LeakyReLU(0.2), nn.Dropout(0.25), nn.Linear(12, 3), nn.Tanh())

    def forward(self, z):
        return self.model(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 12)
        self.validity = nn.Linear(12, 1)

    def forward(self, x):
        return self.validity(torch.tanh(self.hidden(x)))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--n_critic", type=int, default=2)
opt = parser.parse_args()

adversarial_loss = nn.MSELoss()
generator = Generator()
discriminator = Discriminator()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3)
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=1e-3)
samples = torch.rand(16, 3)

for i in range(opt.steps):
    valid = torch.ones(16, 1)
    fake = torch.zeros(16, 1)

    optimizer_G.zero_grad()
    z = torch.randn(16, 6)
    gen = generator(z)
    g_loss = adversarial_loss(discriminator(gen), valid)
    g_loss.backward()
    optimizer_G.step()

    optimizer_D.zero_grad()
    real_loss = adversarial_loss(discriminator(samples), valid)
    fake_loss = adversarial_loss(discriminator(gen.detach()), fake)
    d_loss = 0.5 * (real_loss + fake_loss)
    d_loss.backward()
    optimizer_D.step()

    # the generator once more, every n_critic steps
    optimizer_G.zero_grad()
    if i % opt.n_critic == 0:
        again = generator(z)
        h_loss = -torch.mean(discriminator(again))
        h_loss.backward()
        optimizer_G.step()
        print(i, d_loss.item(), g_loss.item(), h_loss.item())
