"""Functions that make models, called by constructors: what they make is a part of the module there, and a model where the
script calls them. What is done with the weights of such a part is refused."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width, hidden=8):
        super().__init__()
        self.inside = nn.Linear(4, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.outside = nn.Linear(hidden, width)

    def forward(self, x):
        return self.outside(torch.relu(self.norm(self.inside(x))))


def _encoder(width, weights, **options):
    encoder = Encoder(width, **options)
    if weights is not None:
        encoder.load_state_dict(torch.load(weights))
    return encoder


def narrow(weights=None, **options):
    return _encoder(3, weights, **options)


def wide(weights=None, **options):
    return _encoder(12, weights, **options)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = narrow(hidden=6)
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


def without_bias():
    encoder = Encoder(3)
    encoder.outside = nn.Linear(8, 3, bias=False)
    return encoder


class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(3)
        self.encoder.load_state_dict(torch.load("encoder.pt"))
        self.other = Encoder(3)
        for weight in self.other.parameters():
            weight.requires_grad = False
        self.third = Encoder(3)
        self.third.half()
        self.fourth = without_bias()
        encoder = Encoder(3)
        self.inside = encoder.inside

    def forward(self, x):
        return self.encoder(x) + self.other(x) + self.third(x)


model = Classifier()
teacher = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(5, 4)
    optimizer.zero_grad()
    loss = (model(x) - teacher(x).detach().mean()).pow(2).mean()
    loss.backward()
    optimizer.step()
