"""The mode of a model that an object holds, where the object is used from outside its class."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """from copy import deepcopy

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.bn(x)


class Copied:
    def __init__(self, model):
        self.net = deepcopy(model).eval()


class Given:
    def __init__(self, model):
        self.net = model

    def act(self, x):
        return self.net(x)


class Made:
    def __init__(self, model):
        self.net = Net()
        self.net.eval()

    def act(self, x):
        return self.net(x)


x = torch.arange(12.0).reshape(3, 4)
model = Net()
model(x)
model.MODE()
holder = HOLDER(model)
with torch.no_grad():
    y = CALL
"""


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize(
    ("holder", "call"),
    [
        ("Copied", "holder.net(x)"),
        ("Given", "holder.net(x)"),
        ("Given", "holder.act(x)"),
        ("Made", "holder.net(x)"),
        ("Made", "holder.act(x)"),
    ],
)
def test_the_mode_is_torchs(holder: str, call: str, mode: str) -> None:
    source = SCRIPT.replace("HOLDER", holder).replace("CALL", call).replace("MODE", mode)
    expected = rewritten.executed(source)["y"].numpy()
    found = rewritten.executed(rewritten.clean(source).text)["y"]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)
