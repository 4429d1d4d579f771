"""Settings of modules that a constructor reads before they are part of anything: Flax has not run their setup."""

from __future__ import annotations

import numpy as np

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, FOUR_STEPS, trained

STAGES = (
    """import torch
from torch import nn


def halved(size, stride=2):
    return (size - 1) // stride + 1


class Stage(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.out = halved(size)
        self.twice = size * 2
        self.fc = nn.Linear(size, self.out)

    def forward(self, x):
        return torch.tanh(self.fc(x))


class Net(nn.Module):
    def __init__(self, size=8, depth=2):
        super().__init__()
        first = [Stage(size)]
        size = first[-1].out
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(Stage(size))
            size = self.blocks[-1].out
        self.scale = first[0].twice
        self.first = first[0]
        self.head = nn.Linear(size, 2)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x) * self.scale


x = torch.arange(32.0).reshape(4, 8) / 10
"""
    + FOUR_STEPS
)


def test_what_follows_from_the_arguments_is_a_property(float64: None) -> None:
    theirs, ours = trained(STAGES)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


def test_what_does_not_is_refused() -> None:
    text = STAGES.replace("self.out = halved(size)", "self.out = halved(size) + len(str(id(self))) * 0")
    found = rewritten.fresh(text).report.diagnostics
    assert any("what the constructor of Stage sets is not seen outside" in one.message for one in found), found
