"""Weights that a script fills after it has made its models, one after the other: `for net, value in pairs`."""

from __future__ import annotations

import numpy as np

from tests.conformance import rewritten

LAYERS = """import torch
import torch.nn as nn

first = nn.Linear(4, 2)
second = nn.Linear(4, 2)
third = nn.Linear(4, 2)
for net, value in ((first, 0.1), (second, 0.2), (third, 0.3)):
    nn.init.constant_(net.weight, value)
    nn.init.constant_(net.bias, value + 1)
value = 7.0
x = torch.ones(1, 4)
found = [first(x).tolist(), second(x).tolist(), third(x).tolist()]
"""
MODELS = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 2)

    def forward(self, x):
        return self.a(x)


first = Net()
second = Net()
for net, value in ((first, 0.1), (second, 0.2)):
    nn.init.constant_(net.a.weight, value)
    nn.init.constant_(net.a.bias, 0.5)
x = torch.ones(1, 4)
found = [first(x).tolist(), second(x).tolist()]
"""


def test_each_starts_from_its_own() -> None:
    theirs, ours = rewritten.both(LAYERS)
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-6)


def test_models_of_one_class_do_too() -> None:
    """What is alike is an initialiser of the class; what is not is filled in the weights of each."""
    theirs, ours = rewritten.both(MODELS)
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-6)
    alike = MODELS.replace("0.2", "0.1")
    theirs, ours = rewritten.both(alike)
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-6)
    assert "kernel_init=nn.initializers.constant(0.1)" in rewritten.clean(alike).text
