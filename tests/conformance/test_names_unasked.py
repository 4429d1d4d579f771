"""Loops over modules and their names that ask no names: `for name, m in net.named_modules(): m.bias.data.zero_()`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import torch
from torch import nn


def fill(net):
    for name, layer in net.named_modules():
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, 0.1)
            nn.init.constant_(layer.bias, 0.3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.row = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.out = nn.Linear(4, 1)
        INSIDE

    def forward(self, x):
        return self.out(self.row(x))


net = Net()
OUTSIDE
y = net(torch.arange(12.0).reshape(3, 4))
"""

LOOP = """for _, m in NET.named_modules():
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.1)
        nn.init.constant_(m.bias, 0.3)
"""
PLACES = {
    "in a constructor": (LOOP.replace("NET", "self").replace("\n", "\n        "), ""),
    "in the script": ("pass", LOOP.replace("NET", "net")),
    "in a function": ("pass", "fill(net)"),
    "the parts of a row": (
        LOOP.replace("NET", "self").replace("\n", "\n        ")
        + """
        for name, m in self.row.named_children():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.bias, 0.2)""",
        "",
    ),
}


@pytest.mark.parametrize("inside, outside", PLACES.values(), ids=PLACES)
def test_weights_start_alike(inside: str, outside: str) -> None:
    theirs, ours = rewritten.both(NET.replace("INSIDE", inside).replace("OUTSIDE", outside))
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)  # sums of 4, twice


@pytest.mark.parametrize("read", ["if 'out' in name", "if name"])
def test_a_name_that_is_asked_is_told(read: str) -> None:
    loop = f"for name, m in net.named_modules():\n    {read}:\n        nn.init.zeros_(m.bias)\n"
    made = rewritten.conversion(NET.replace("INSIDE", "pass").replace("OUTSIDE", loop))
    assert ("MIG301", "nn.Module.named_modules") in [(one.code, one.message) for one in made.report.diagnostics]
