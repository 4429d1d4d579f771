"""Initial weights that an argument decides, and those that a script gives its models once they are made."""

from typing import Any

import jax.numpy as jnp
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

BY_FLAG = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, init_weights=True):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        if init_weights:
            FILLED

    def forward(self, x):
        return self.fc(x)
METHOD

net = Net(False)
print(net(torch.ones(2, 4)))
"""
METHOD = """
    def fill(self):
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.zeros_(m.bias)
"""
IN_PLACE = (
    "for m in self.modules():\n                if isinstance(m, nn.Linear):\n                    nn.init.zeros_(m.bias)"
)


@pytest.mark.parametrize("filled", ["self.fill()", IN_PLACE, "nn.init.zeros_(self.fc.bias)"])
def test_a_field_decides(filled: str) -> None:
    method = METHOD if filled == "self.fill()" else ""
    conversion = convert(parse("net.py", BY_FLAG.replace("FILLED", filled).replace("METHOD", method)))
    assert not conversion.report.diagnostics
    names: dict[str, Any] = {"__name__": __name__}
    exec(conversion.text, names)
    biases = [names["Net"](flag).init(names["key"], jnp.ones((2, 4)))["params"]["fc"]["bias"] for flag in (True, False)]
    assert not biases[0].any()
    assert biases[1].all()


REBOUND = """\
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x)


class Net(nn.Module):
    def __init__(self, init_weights=None):
        super().__init__()
        FIRST
        self.block = Block()
        self.fc = nn.Linear(4, 3)
        THEN
        if init_weights:
            FILLED

    def forward(self, x):
        return self.fc(self.block(x))


net = Net()
print(net(torch.ones(2, 4)))
"""
SETTLED = "if init_weights is None:\n            init_weights = True"


@pytest.mark.parametrize("filled", [IN_PLACE, "nn.init.zeros_(self.fc.bias)"])
def test_an_argument_that_is_bound_anew_decides(filled: str) -> None:
    """What the constructor was given is not what it goes by."""
    source = REBOUND.replace("FIRST", SETTLED).replace("THEN", "pass").replace("FILLED", filled)
    conversion = convert(parse("net.py", source))
    assert not conversion.report.diagnostics
    names: dict[str, Any] = {"__name__": __name__}
    exec(conversion.text, names)
    made = [names["Net"](flag).init(names["key"], jnp.ones((2, 4)))["params"] for flag in (None, True, False)]
    assert [bool(params["fc"]["bias"].any()) for params in made] == [False, False, True]
    inner = [False, False, True] if filled is IN_PLACE else [True] * 3
    assert [bool(params["block"]["inner"]["bias"].any()) for params in made] == inner


@pytest.mark.parametrize("filled", [IN_PLACE, "nn.init.zeros_(self.fc.bias)"])
def test_an_argument_that_is_bound_too_late(filled: str) -> None:
    """The layers, which take the initialisers, have been made by then."""
    source = REBOUND.replace("FIRST", "pass").replace("THEN", SETTLED).replace("FILLED", filled)
    conversion = convert(parse("net.py", source))
    assert [one.code for one in conversion.report.diagnostics] == ["MIG204"]


MADE = """\
import sys

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.zeros_(m.bias)


net = Net()
FILLED
print(net(torch.ones(2, 4)))
"""
ZEROS = "torch_init(fan_in=4, bias_init=nn.initializers.zeros)"
LOOP = "for m in net.modules():\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.bias)"
PARAMETERS = "for p in net.parameters():\n    if p.dim() < 2:\n        nn.init.zeros_(p)"
CHOICE = "if len(sys.argv) > 1:\n    net.load_state_dict(torch.load('net.pt'))\nelse:\n    net.apply(init)"
COPY = "other = Net()\nnet.apply(init)\nother.load_state_dict(net.state_dict())\nprint(other(torch.ones(2, 4)))"


@pytest.mark.parametrize("filled", ["net.apply(init)", LOOP, PARAMETERS, CHOICE, COPY])
def test_the_constructor_has_the_initialiser(filled: str) -> None:
    conversion = convert(parse("net.py", MADE.replace("FILLED", filled)))
    assert ZEROS in conversion.text
    assert not [one for one in conversion.report.diagnostics if one.code == "MIG204"]


@pytest.mark.parametrize(
    ("filled", "why"),
    [
        ("if len(sys.argv) > 1:\n    net.apply(init)", "depends on `len(sys.argv) > 1`"),
        ("other = Net()\nnet.apply(init)\nprint(other(torch.ones(2, 4)))", "other, which has layers of the same"),
    ],
)
def test_models_that_keep_theirs(filled: str, why: str) -> None:
    """The initialiser stands in the class: no model of it may do without."""
    conversion = convert(parse("net.py", MADE.replace("FILLED", filled)))
    assert any(one.code == "MIG204" and why in one.message for one in conversion.report.diagnostics)


HOLDING = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer = LAYER
        self.fc = nn.Linear(8, 3)
        self.apply(self.fill)

    def fill(self, m):
        if isinstance(m, nn.Linear):
            nn.init.zeros_(m.weight)
        elif isinstance(m, nn.LayerNorm):
            nn.init.ones_(m.weight)

    def forward(self, x):
        return self.fc(MIXED)


net = Net()
print(net(torch.ones(2, 4, 8)))
"""


def test_the_output_of_an_attention_is_a_dense_layer() -> None:
    attention = HOLDING.replace("LAYER", "nn.MultiheadAttention(8, 2)").replace("MIXED", "self.mixer(x, x, x)[0]")
    conversion = convert(parse("net.py", attention))
    assert "MultiheadAttention(8, 2, out_proj_init=nn.initializers.zeros)" in conversion.text
    assert not conversion.report.diagnostics


@pytest.mark.parametrize("layers", ["LAYER", "nn.TransformerEncoder(LAYER, 2)"])
def test_norms_inside_others_that_start_otherwise_are_refused(layers: str) -> None:
    layer = layers.replace("LAYER", "nn.TransformerEncoderLayer(8, 2, 16)")
    source = HOLDING.replace("LAYER", layer).replace("MIXED", "self.mixer(x)").replace("ones_(m.w", "zeros_(m.w")
    conversion = convert(parse("net.py", source))
    assert [one.code for one in conversion.report.diagnostics] == ["MIG204"]
    assert "norm1.weight" in conversion.report.diagnostics[0].message
