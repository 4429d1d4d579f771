"""Base classes that compute with what only their subclasses make: outputs, losses and weights in both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.rewritten import both
from tests.conformance.test_training_forms import EXACT, trained

BASE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Base(nn.Module):
    def forward(self, X):
        assert hasattr(self, "net"), "a network is defined"
        return self.net(X) * self.scale

    def loss(self, X, Y):
        raise NotImplementedError

    def loss(self, X, Y):
        Y_hat = self(X)
        return F.cross_entropy(Y_hat.reshape((-1, Y_hat.shape[-1])), Y.reshape(-1))


class Middle(Base):
    def accuracy(self, X, Y):
        Y_hat = self(X)
        return (Y_hat.argmax(1) == Y).float().mean()

    def features(self, X):
        return self.net(X).flatten(1)


"""
CONV = """class Net(Middle):
    def __init__(self, scale=0.5):
        super().__init__()
        self.scale = scale
        self.net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))


"""
DENSE = """class Net(Middle):
    def __init__(self, scale=2.0):
        super().__init__()
        self.scale = scale
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


class Another(Middle):
    def __init__(self):
        super().__init__()
        self.scale = 3.0
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 3))


"""
TRAINED = """x = torch.linspace(-1, 1, 8 * 16).reshape(8, 1, 4, 4).sin()
y = torch.arange(8) % 3
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
losses, others = [], []
for _ in range(6):
    loss = model.loss(x, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
    others.append(model.accuracy(x, y).item() + model.features(x).sum().item())
"""


@pytest.mark.parametrize("made", [CONV, DENSE])
def test_a_few_steps(made: str, float64: None) -> None:
    theirs, ours = trained(BASE + made + TRAINED)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    np.testing.assert_allclose(ours["others"], theirs["others"], rtol=EXACT)
    assert len(set(theirs["losses"])) == 6


def test_the_output_asserts_nothing_that_its_classes_tell(float64: None) -> None:
    text = convert(parse("x.py", BASE + CONV + TRAINED)).text
    assert "assert" not in text
    assert "NotImplementedError" not in text  # of a method that the class defines again


def test_parts_that_want_their_channels_in_different_places() -> None:
    """The base has one forward pass for both."""
    both = BASE + CONV + DENSE.replace("Net", "Other") + TRAINED + "another = Other()\nprint(another(x))\n"
    made = convert(parse("x.py", both))
    assert any(
        each.code == "MIG201" and "want their channels in different places" in each.message
        for each in made.report.diagnostics
    ), made.report.as_text()


MADE = """import torch
import torch.nn as nn


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 2)

    def forward(self, x):
        x = self.first(x)
        if hasattr(self, "second"):
            x = self.second(x)
        return x


class Net(Plain):
    def __init__(self):
        super().__init__()
        self.second = nn.Linear(2, 5)


plain, net = Plain(), Net()
x = torch.ones(4, 3)
shapes = [tuple(plain(x).shape), tuple(net(x).shape)]
"""


def test_a_base_of_which_modules_are_made() -> None:
    """It has no such part, and its heirs do: which of them it is, is asked as it runs."""
    theirs, ours = both(MADE)
    assert ours["shapes"] == theirs["shapes"] == [(4, 2), (4, 5)]
