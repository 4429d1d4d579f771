"""Channels of what comprehensions and functions inside a forward pass read of it, with equal lengths on all axes."""

from __future__ import annotations

import pytest

from migrate.layers.layer import Sample
from tests.conformance.run_layer import assert_same

MODULE = """import torch
import torch.nn as nn


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.branches = nn.ModuleList([nn.Conv2d(4, 2, 1), nn.Conv2d(4, 2, 3, padding=1)])

    def forward(self, x):
        y = torch.tanh(self.conv(x))
        {steps}
        return z
"""


@pytest.mark.parametrize(
    "steps",
    [
        "z = torch.cat([branch(y) for branch in self.branches], 1)",
        "z = sum(branch(y) for branch in self.branches)[:, 0]",
        "z = torch.stack([row[0] for row in y])",
        "z = torch.stack([a[0] * b[1] for a, b in zip(y, x)])",
        "z = {i: y[:, i] for i in range(2)}[1]",
        "f = lambda k: y[:, k]; y = y.permute(0, 2, 3, 1); z = f(1)",
        "def f(k):\n            return y[:, k]\n\n        z = f(0) * f(1)",
        "z = y.mT[:, 0] + y[0].mT[1]",
    ],
)
def test_what_is_inside_sees_torchs_axes(steps: str, float64: None) -> None:
    assert_same(MODULE.replace("{steps}", steps), Sample("M()", (2, 4, 4, 4)))
