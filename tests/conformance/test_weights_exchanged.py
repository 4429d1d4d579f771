"""Layers that are models by themselves and hold the same weights: those of one go into the other, whatever is said of
their initial weights and of the layers around."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conformance import rewritten

MODELS = {
    "one layer": ("nn.Linear(2, 1)", "nn.Linear(2, 1)", "first"),
    "rows": ("nn.Sequential(nn.Linear(2, 1), nn.ReLU())", "nn.Sequential(nn.Linear(2, 1), nn.ReLU())", "first[0]"),
    "rows that compute otherwise": (
        "nn.Sequential(nn.Linear(2, 1), nn.Tanh())",
        "nn.Sequential(nn.Linear(2, 1), nn.ReLU())",
        "first[0]",
    ),
    "one with a train mode": (
        "nn.Sequential(nn.Linear(2, 1), nn.Tanh())",
        "nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5)).eval()",
        "first[0]",
    ),
}
WAYS = {
    "at once": "second.load_state_dict(first.state_dict())",
    "by a file": "torch.save(first.state_dict(), path)\nsecond.load_state_dict(torch.load(path))",
    "by a file with more": "torch.save({'net': first.state_dict(), 'n': 1}, path)\n"
    "second.load_state_dict(torch.load(path)['net'])",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("first", "second", "filled"), MODELS.values(), ids=MODELS)
def test_the_outputs_are_torchs(first: str, second: str, filled: str, way: str, tmp_path: Path) -> None:
    text = f"""import torch
from torch import nn

path = {str(tmp_path / "net.pt")!r}
first = {first}
nn.init.constant_({filled}.weight, 0.3)
nn.init.constant_({filled}.bias, 0.1)
second = {second}
{way}
x = torch.ones(1, 2)
y = torch.cat([first(x), second(x)])
"""
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-6)  # sums of 2
