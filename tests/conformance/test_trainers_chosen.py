"""Trainers of which a script chooses one: what their methods do with models is known, though not which of them runs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TRAINERS = """import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

counted = []


def count(net):
    counted.append(sum(p.numel() for p in net.parameters()))


def data():
    x = torch.linspace(-1, 1, 24).reshape(8, 3)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)
        nn.init.constant_(self.fc.weight, 0.2)
        nn.init.constant_(self.fc.bias, 0.1)

    def forward(self, x):
        return self.fc(x)


class Curved(Small):
    def forward(self, x):
        return torch.tanh(self.fc(x))


class First:
    def __init__(self):
        self.loader = data()
        self.net = Small()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        count(self.net)

    def train(self, epochs):
        losses = []
        for epoch in range(epochs):
            for x, y in self.loader:
                loss = (self.net(x) - y).pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
        return losses


class Second:
    def __init__(self):
        self.loader = data()
        self.net = Curved()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1)
        count(self.net)

    def train(self, epochs):
        losses = []
        for epoch in range(epochs):
            for x, y in self.loader:
                loss = (self.net(x) - y).abs().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
        return losses


if len(sys.argv) > NUMBER:
    trainer = First()
else:
    trainer = Second()
losses = trainer.train(2)
"""


@pytest.mark.parametrize("number", ["-1", "100"])
def test_models_of_each_have_an_example_before_they_are_counted(number: str, float64: None) -> None:
    theirs, ours = rewritten.both(TRAINERS.replace("NUMBER", number))
    assert ours["counted"] == theirs["counted"] == [4]
    assert len(theirs["losses"]) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)  # float32
