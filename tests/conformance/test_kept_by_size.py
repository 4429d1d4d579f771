"""Masks that a forward pass keeps on its object until the size is another one: made at each call, and torch's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None
        self.scale = nn.Parameter(torch.tensor(2.0))

    def make_mask(self, n):
        return torch.triu(torch.full((n, n), -1.0), diagonal=1)

    def forward(self, x, masked=True):
        if masked:
            if GUARD:
                mask = self.make_mask(len(x)).to(x.device)
                self.mask = mask
        else:
            self.mask = None
        scores = x @ x.T * self.scale
        return scores if self.mask is None else scores + self.mask


model = Model()
short, long = torch.arange(6.0).reshape(2, 3), torch.arange(15.0).reshape(5, 3) / 4
results = [
    model(short).sum().item(),
    model(long, True).sum().item(),
    model(long, False).sum().item(),
    model(long).sum().item(),
    model(short, masked=True).sum().item(),
]
"""
GUARDS = [
    "self.mask is None or self.mask.size(0) != len(x)",
    "self.mask is None or len(x) != self.mask.shape[0]",
    "self.mask is None or len(self.mask) != len(x)",
]
KEPT = TEXT.replace("GUARD", GUARDS[0])


@pytest.mark.parametrize("guard", GUARDS)
def test_they_are_made_at_each_call(guard: str) -> None:
    source = TEXT.replace("GUARD", guard)
    theirs, ours = rewritten.both(source)
    np.testing.assert_allclose(ours["results"], theirs["results"], rtol=1e-6)  # float32, sums of few numbers
    assert "self.mask" not in rewritten.clean(source).text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(n, n), -1.0)", "(n, n), self.scale.item())"),  # what it is made of changes
        ("(n, n), -1.0)", "(7, 7), -1.0)"),  # the size of the first axis is another one
        ("self.make_mask(len(x))", "self.make_mask(len(x) + 1)"),
        ("results = [", "print(model.mask)\nresults = ["),  # somebody asks for it
        ("        self.mask = None\n        self.scale", "        self.mask = torch.eye(2)\n        self.scale"),
        ("            self.mask = None\n        scores", "            self.mask = x\n        scores"),
        (GUARDS[0], "self.mask is None or self.mask.size(0) < len(x)"),
    ],
)
def test_others_need_a_person(old: str, new: str) -> None:
    assert old in KEPT
    assert rewritten.conversion(KEPT.replace(old, new)).report.exit_code == 1
