"""Values that make a layer by some way, and by others what is not known: it would have no weights and no mode."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

NET = """import json

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n, norm=None):
        super().__init__()
        {otherwise}
        self.a = nn.Linear(4, n)
        self.norm = norm(n)

    def forward(self, x):
        return self.norm(self.a(x))


def build(n, **settings):
    return Net(n, {given})


print(build(4, classes=3)(torch.ones(2, 4)))
"""
OTHERWISE = "norm = norm or nn.BatchNorm1d"
WAYS = {
    "in the constructor": (OTHERWISE, 'norm=json.loads("{}").pop("norm", nn.LayerNorm)', ["MIG201"]),
    "by a keyword that nobody gives": (OTHERWISE, 'norm=settings.pop("norm", nn.LayerNorm)', []),
    "in a call": ("pass", 'norm=json.loads("1")), Net(n, nn.LayerNorm', ["MIG201"]),
    "by all": (OTHERWISE, "norm=nn.LayerNorm", []),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_call_of_what_is_perhaps_a_layer(way: str) -> None:
    otherwise, given, codes = WAYS[way]
    made = rewritten.conversion(NET.format(otherwise=otherwise, given=given))
    found = [one.code for one in made.report.diagnostics if "some way" in one.message]
    assert found == codes, made.report.as_text()
