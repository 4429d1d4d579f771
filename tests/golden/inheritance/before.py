"""Module classes that inherit: abstract bases, mixins, overridden methods, constructors that pass arguments on."""

from abc import abstractmethod

import torch
from torch import nn


class Named:
    def title(self):
        return type(self).__name__


class BaseVAE(nn.Module):
    """What the models share."""

    def __init__(self) -> None:
        super().__init__()

    def encode(self, x):
        raise NotImplementedError

    @abstractmethod
    def decode(self, z):
        pass

    def reconstruct(self, x):
        return self.decode(self.encode(x)).view(x.shape[0], -1)


class VAE(Named, BaseVAE):
    def __init__(self, width: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(width, latent)
        self.norm = nn.BatchNorm1d(latent)
        self.decoder = nn.Linear(latent, width)

    def encode(self, x):
        return self.norm(self.encoder(x))

    def decode(self, z):
        return self.decoder(z)

    def forward(self, x):
        return self.reconstruct(x)


class Attention(nn.Module):
    """Attention with one head."""

    def __init__(self, dim, heads=2, p=0.1):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(p)

    def scores(self, x):
        return self.query(x) @ self.key(x).transpose(-1, -2)

    def forward(self, x):
        return self.dropout(self.scores(x).softmax(-1)) @ x


class Scaled(Attention):
    def scores(self, x):
        return super().scores(x) * self.heads


class Relative(Attention):
    """Attention with a bias for each distance."""

    def __init__(self, dim, length, p=0.0):
        super().__init__(dim, heads=4, p=p)
        self.bias = nn.Parameter(torch.zeros(length, length))

    def scores(self, x):
        return super().scores(x) + self.bias


class Model(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.a = Attention(dim)
        self.b = Scaled(dim, 3)
        self.c = Relative(dim, 5)
        self.vae = VAE(dim, 4)

    def forward(self, x):
        return self.vae(self.c(self.b(self.a(x))).mean(1))
