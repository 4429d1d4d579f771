"""Tensors that a constructor keeps under an attribute, or as a buffer, before it fills them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, FOUR_STEPS, trained

FILLED = (
    """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n=6, width=4):
        super().__init__()
        self.table = torch.zeros(n, width)
        self.table.requires_grad = False
        angles = torch.arange(n * 1.0).unsqueeze(1) / (100 ** (torch.arange(0.0, width, 2) / width))
        self.table[:, 0::2] = torch.sin(angles)
        self.table[:, 1::2] = torch.cos(angles)
        # halves
        self.register_buffer("mask", torch.ones(n), persistent=False)
        self.mask[0] = 0
        self.mask.mul_(0.5)
        self.rows = torch.arange(12.0).view(3, 4)
        for i in range(3):
            self.rows[i] += i
        self.fc = nn.Linear(width, 2)

    def forward(self, x):
        return self.fc(x + self.table[:3] * self.mask[:3, None] + self.rows)


x = torch.arange(12.0).reshape(3, 4) / 10
"""
    + FOUR_STEPS
)


def test_they_are_filled_under_local_names(float64: None) -> None:
    theirs, ours = trained(FILLED)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    text = rewritten.clean(FILLED).text
    assert "table = table.at[:, 0::2].set(jnp.sin(angles))" in text and "self.table.at" not in text
    assert text.count("requires_grad") == 0 and "# halves" in text


@pytest.mark.parametrize(
    "between",
    [
        "self.shown()",  # a method that reads it
        "print(str(self))",
        "self.table = self.table + 1",
    ],
)
def test_what_may_be_seen_is_not_renamed(between: str) -> None:
    shown = "    def shown(self):\n        print(self.table)\n\n    def forward"
    changed = FILLED.replace("        angles =", f"        {between}\n        angles =")
    report = rewritten.conversion(changed.replace("    def forward", shown)).report.as_text()
    assert "MIG303 self.table is changed in place" in report


LISTED = (
    """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, sizes=(4, 5, 3)):
        super().__init__()
        self.net = []  # as many as there are sizes
        for n, m in zip(sizes, sizes[1:]):
            self.net.extend([nn.Linear(n, m), nn.Tanh()])
        self.net.pop()
        self.net = nn.Sequential(*self.net)
        self.heads = [nn.Linear(3, 2)]
        self.heads += [nn.Linear(2, 2)]
        self.heads = nn.ModuleList(self.heads)

    def forward(self, x):
        for head in [self.net, *self.heads]:
            x = head(x)
        return x


x = torch.arange(12.0).reshape(3, 4) / 10
"""
    + FOUR_STEPS
)


def test_a_list_until_it_is_a_module(float64: None) -> None:
    theirs, ours = trained(LISTED)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    text = rewritten.clean(LISTED).text
    assert "net = []  # as many as there are sizes" in text and "self.net = nn.Sequential(net)" in text
