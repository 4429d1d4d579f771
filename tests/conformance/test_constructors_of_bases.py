"""Modules whose base has a constructor that runs methods of theirs: `self.build()`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
from torch import nn

x = torch.linspace(-1, 1, 6).reshape(3, 2)


"""
BASES = {
    "parts": """class Base(nn.Module):
    def __init__(self, width, *, scale=2.0):
        super().__init__()
        self.width, self.scale = width, scale
        self.build()

    def build(self):
        raise NotImplementedError

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


class First(Base):
    def build(self):
        self.body = nn.Sequential(nn.Linear(2, self.width), nn.ReLU())
        self.head = nn.Linear(self.width, 1)


class Second(Base):
    \"\"\"Without a body.\"\"\"

    def build(self):
        self.body = nn.Identity()
        self.head = nn.Linear(2, self.width)


a, b, c = First(4), First(3, scale=1.0), Second(2)
for m in (a, b, c):
    for p in m.parameters():
        nn.init.constant_(p, 0.3)
ys = [a(x).tolist(), b(x).tolist(), c(x).tolist()]
""",
    "what a method returns": """class Base(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.width = width
        self.body = self.made()

    def forward(self, x):
        return self.body(x)


class First(Base):
    def made(self):
        return nn.Linear(2, self.width)


a, b = First(), First(2)
with torch.no_grad():
    a.body.weight.fill_(0.2)
    a.body.bias.fill_(0.1)
    b.body.weight.fill_(0.3)
    b.body.bias.zero_()
ys = [a(x).tolist(), b(x).tolist()]
""",
    "initial values": """class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.reset()

    def reset(self):
        nn.init.constant_(self.fc.weight, 0.5)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(x)


class First(Base):
    def reset(self):
        nn.init.constant_(self.fc.weight, 0.25)
        nn.init.ones_(self.fc.bias)


class Second(Base):
    def __init__(self):
        super().__init__()
        self.scale = 3

    def reset(self):
        nn.init.constant_(self.fc.weight, 0.1)
        nn.init.ones_(self.fc.bias)

    def forward(self, x):
        return super().forward(x) * self.scale


a, b, c = Base(), First(), Second()
ys = [a(x).tolist(), b(x).tolist(), c(x).tolist()]
""",
}


@pytest.mark.parametrize("text", BASES.values(), ids=BASES)
def test_outputs_are_torchs(text: str) -> None:
    theirs, ours = rewritten.both(HEAD + text)
    for mine, torchs in zip(ours["ys"], theirs["ys"], strict=True):
        np.testing.assert_allclose(mine, torchs, rtol=1e-5, atol=1e-6)  # some sums are of opposite numbers
