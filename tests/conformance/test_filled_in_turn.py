"""Initial values that loops give: over parts of a dict, over what a module has, over several models."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import itertools
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.act, self.b = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)
        self.layers = nn.ModuleDict({"c": nn.Linear(2, 2), "n": nn.LayerNorm(2), "d": nn.Linear(2, 1)})
        for p in self.parameters():
            nn.init.constant_(p, 0.2)
        LOOP

    def forward(self, x):
        x = self.b(self.act(self.a(x)))
        return self.layers["d"](self.layers["n"](self.layers["c"](x)) + x)


y = Net()(torch.linspace(1, 2, 6).reshape(3, 2)).tolist()
"""
INSIDE = {
    "values": """for m in self.layers.values():
            nn.init.constant_(m.weight, 0.5)
            nn.init.constant_(m.bias, 0.1)""",
    "items": """for name, m in self.layers.items():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.5)
                nn.init.constant_(m.bias, 0.1 if name == "c" else 0.3)""",
    "keys": """for name in self.layers:
            nn.init.constant_(self.layers[name].bias, 0.4)""",
    "children of a row": """for m in self.children():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.5)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0.1)""",
}


@pytest.mark.parametrize("loop", INSIDE.values(), ids=INSIDE)
def test_loops_of_constructors(loop: str) -> None:
    text = NET.replace("LOOP", loop)
    if "children" in loop:  # all of which are layers
        text = text.replace('nn.ModuleDict({"c": nn.Linear(2, 2), "n": nn.LayerNorm(2), "d": nn.Linear(2, 1)})', "None")
        text = text.replace('self.layers["d"](self.layers["n"](self.layers["c"](x)) + x)', "x")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["y"], theirs["y"], rtol=1e-5)


MODELS = """import itertools
import torch
from torch import nn

a, b = nn.Linear(2, 2), nn.Linear(2, 1)
net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
for p in net.parameters():
    nn.init.constant_(p, 0.2)
LOOP
x = torch.linspace(1, 2, 6).reshape(3, 2)
y = (b(a(x)) + net(x)).tolist()
"""
OUTSIDE = {
    "a sum": "for p in list(a.parameters()) + list(b.parameters()):\n    nn.init.constant_(p, 0.5)",
    "stars": "for p in [*a.parameters(), *b.parameters()]:\n    nn.init.constant_(p, 0.5)",
    "a chain": "for p in itertools.chain(a.parameters(), b.parameters()):\n    p.data.fill_(0.5)",
    "parts of a model": "for p in [*a.parameters(), *b.parameters()]:\n    nn.init.constant_(p, 0.5)\n"
    "for m in (net[0], net[2]):\n    nn.init.constant_(m.weight, 0.3)\n    nn.init.constant_(m.bias, 0.7)",
}


@pytest.mark.parametrize("loop", OUTSIDE.values(), ids=OUTSIDE)
def test_loops_over_several_models(loop: str) -> None:
    theirs, ours = rewritten.both(MODELS.replace("LOOP", loop))
    np.testing.assert_allclose(ours["y"], theirs["y"], rtol=1e-5)


def test_initial_values_behind_a_loop_that_changes_weights_are_told() -> None:
    loop = "for p in a.parameters():\n    p.data.fill_(0.5)\nfor p in a.parameters():\n    nn.init.constant_(p, 0.1)"
    made = rewritten.conversion(MODELS.replace("LOOP", loop))
    assert [one.code for one in made.report.diagnostics] == ["MIG204"]
