"""Initial weights of layers that a constructor tells apart from others of their class: by a name, or by a note."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """\
import torch
import torch.nn as nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        {noted}

    def forward(self, x):
        return self.fc(x)


class Net(nn.Module):
    def __init__(self, fill=True):
        super().__init__()
        self.first = nn.Linear(4, 4)
        last = nn.Linear(4, 4)
        {more}
        self.net = nn.Sequential(nn.ReLU(), last)
        self.head = Head()
        {asked}

    def forward(self, x):
        return self.head(self.net(self.first(x)))


net = Net()
print(net(torch.ones(2, 4)))
"""
LOOP = "for m in self.modules():\n            if isinstance(m, nn.Linear):\n                "
ONE, TWO = "nn.init.constant_(m.weight, 1.5)", "nn.init.constant_(m.weight, 2.5)"
BRANCH = LOOP + f"if m TEST:\n                    {ONE}\n                else:\n                    {TWO}"
NOTED = (
    LOOP + 'value = float(m.value) if hasattr(m, "value") else 2.5\n                nn.init.constant_(m.weight, value)'
)
SCALED = (
    LOOP + 'value = 2.5\n                if hasattr(m, "value"):\n                    value *= 3\n'
    "                nn.init.constant_(m.weight, value)"
)
HELD = 'for m in self.modules():\n            if hasattr(m, "fc"):\n                nn.init.constant_(m.fc.weight, 1.5)'
SWITCH = "if fill:\n            " + BRANCH.replace("TEST", "is self.first").replace("\n", "\n    ")


def written(**given: str) -> str:
    return SCRIPT.format(**{"noted": "", "more": "", "asked": "", **given})


@pytest.mark.parametrize(
    "given",
    [
        {"asked": BRANCH.replace("TEST", "is last")},
        {"asked": BRANCH.replace("TEST", "is self.first")},
        {"asked": BRANCH.replace("TEST", "is not last")},
        {"asked": NOTED, "noted": "self.fc.value = 3"},
        {"asked": NOTED, "noted": "self.fc.value = 0.5", "more": "self.first.value = 1"},
        {"asked": SCALED, "noted": "self.fc.value = 3"},
        {"asked": SWITCH},
        {"asked": HELD},
        {"asked": "nn.init.constant_(self.first.weight, 1.5)\n        nn.init.constant_(self.head.fc.weight, 2.5)"},
    ],
)
def test_each_has_its_own(given: dict[str, str]) -> None:
    source = written(**given)
    conversion = convert(parse("net.py", source))
    assert not conversion.report.diagnostics
    theirs: dict[str, Any] = {"__name__": __name__}
    ours: dict[str, Any] = {"__name__": __name__}
    exec(source, theirs)
    exec(conversion.text, ours)
    model, params = theirs["Net"](), ours["Net"]().init(ours["key"], jnp.ones((2, 4)))["params"]
    pairs = [
        (model.first, params["first"]),
        (model.net[1], params["net"]["layers_1"]),
        (model.head.fc, params["head"]["fc"]),
    ]
    for layer, weights in pairs:
        if torch.unique(layer.weight).numel() == 1:
            np.testing.assert_array_equal(weights["kernel"], layer.weight.detach().T)
        else:
            assert len(np.unique(weights["kernel"])) > 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"asked": LOOP + "if m is not last:\n                    " + ONE}, "keeps torch's initial weights"),
        (
            {
                "asked": BRANCH.replace("TEST", "is last"),
                "more": "for _ in range(2):\n            last = nn.Linear(4, 4)",
            },
            "may be several",
        ),
        ({"asked": BRANCH.replace("TEST", "is self.net")}, "not known to be a layer"),
        ({"asked": NOTED, "noted": "self.fc.value = 3\n        print(self.fc.value)"}, "is changed after"),
        ({"asked": NOTED, "noted": "self.fc.in_features = 3"}, "is changed after"),
    ],
)
def test_refused(given: dict[str, str], why: str) -> None:
    found = convert(parse("net.py", written(**given))).report.diagnostics
    assert any(one.code == "MIG204" and why in one.message for one in found)
