"""Channels where branches and loops meet: whichever way was taken, what follows sees torch's order.

All sides of the input are equal, so that a lost move changes the values and not the shape.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.conformance import rewritten

HEAD = (
    "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass M(nn.Module):\n"
    "    def __init__(self, way=0):\n        super().__init__()\n        self.way = way\n"
    "        self.pool = nn.AvgPool2d(3, stride=1, padding=1)\n\n    def forward(self, x):\n        y = x\n"
)

BODIES = {
    "a branch": "if self.way == 1:\n    y = self.pool(x)\nreturn y.cumsum(1)",
    "a residual": "z = self.pool(x)\nif self.way == 1:\n    y = self.pool(self.pool(x))\nz += y\nreturn z",
    "the other side": "if self.way == 1:\n    y = x * 2\nelse:\n    y = self.pool(x)\nreturn y.cumsum(1)",
    "both sides": "if self.way == 1:\n    y = self.pool(x)\nelse:\n    y = self.pool(x * 2)\nreturn y.cumsum(1)",
    "elif": "if self.way == 1:\n    y = x * 2\nelif self.way == 2:\n    y = self.pool(x)\nreturn y.cumsum(1)",
    "nested": "if self.way:\n    if self.way == 1:\n        y = self.pool(x)\n    y = y + 1\nreturn y.cumsum(1)",
    "a side that returns": (
        "if self.way == 1:\n    return self.pool(x)\nelse:\n    y = self.pool(x * 2)\nreturn y.cumsum(1)"
    ),
    "several names": "z = x\nif self.way == 1:\n    z = self.pool(x)\n    y = z * 2\nreturn y.cumsum(1) + z",
    "a loop": "for i in range(self.way):\n    y = self.pool(y)\nreturn y.cumsum(1)",
    "a loop's own name": "for i in range(self.way):\n    z = self.pool(y)\n    y = torch.tanh(z)\nreturn y.cumsum(1)",
    "break": (
        "for i in range(3):\n    y = self.pool(y)\n    if i == self.way:\n        break\n    y = y.cumsum(1)\n"
        "return y.cumsum(1)"
    ),
    "continue": (
        "for i in range(3):\n    y = self.pool(y)\n    if i == self.way:\n        continue\n    x = y.cumsum(1)\n"
        "return y.cumsum(1) + x"
    ),
    "while": "i = 0\nwhile i < self.way:\n    y = self.pool(y)\n    i += 1\nreturn y.cumsum(1)",
    "a tensor's value": "if x.sum() > self.way - 1:\n    y = F.avg_pool2d(x, 3, 1, 1)\nreturn y.cumsum(1)",
    "match": (
        "match self.way:\n    case 1:\n        y = self.pool(x)\n    case 2:\n        y = y * 2\nreturn y.cumsum(1)"
    ),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_each_way(body: str, float64: None) -> None:
    source = HEAD + "".join(f"        {line}\n" for line in body.split("\n"))
    theirs = rewritten.executed(source)["M"]
    ours = rewritten.executed(rewritten.clean(source).text)["M"]
    x = np.random.default_rng(0).normal(size=(3, 3, 3, 3))
    for way in range(3):
        found = ours(way).apply({}, jnp.asarray(x))
        np.testing.assert_allclose(np.asarray(found), theirs(way)(torch.tensor(x)).numpy(), rtol=1e-12, atol=1e-14)


def test_a_layer_in_a_try_block_is_left() -> None:
    body = "        try:\n            y = self.pool(x)\n        except ValueError:\n            pass\n"
    made = rewritten.conversion(f"{HEAD}{body}        return y.cumsum(1)\n")
    assert [found.code for found in made.report.diagnostics] == ["MIG301"]


UNKNOWN_BESIDE_CHANNELS = """
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.shortcut = None

    def forward(self, x):
        residual = x
        out = self.conv(x)
        if self.shortcut is not None:
            residual = self.shortcut(x)
        out += residual
        return out * 0 + residual


net = Net()
out = net(torch.arange(120.0).reshape(2, 3, 4, 5))
"""


def test_channels_go_back_where_the_other_side_may_be_a_tensor() -> None:
    ours = rewritten.executed(str(rewritten.clean(UNKNOWN_BESIDE_CHANNELS).text))["out"]
    theirs = rewritten.executed(UNKNOWN_BESIDE_CHANNELS)["out"].detach().numpy()
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
