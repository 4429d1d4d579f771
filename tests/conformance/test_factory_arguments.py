"""`device` and `dtype` that constructors hand on to layers, and nobody gives: both frameworks, and where they stay."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.layers.layer import Sample
from migrate.lowering.plainer.factory_arguments import with_plain_factories
from migrate.lowering.rounds import Input
from tests.conformance.run_layer import assert_same

TEXT = """import torch
import torch.nn as nn
from functools import partial


class Block(nn.Module):
    def __init__(self, width, norm=nn.LayerNorm, device=None, dtype=None):
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        self.fc = nn.Linear(width, width, **factory_kwargs)
        self.norm = norm(width, **factory_kwargs)
        self.scale = nn.Parameter(torch.ones(width, **factory_kwargs) * 0.5)

    def forward(self, x):
        return self.norm(self.fc(x)) * self.scale


def head(width, *, bias=True, dtype=None):
    return nn.Sequential(nn.Tanh(), nn.Linear(width, 2, bias=bias, dtype=dtype))


class M(nn.Module):
    def __init__(self, width=4, depth=2, *, device=None, dtype=None):
        super().__init__()
        dd = dict(device=device, dtype=dtype)
        make = partial(Block, norm=nn.LayerNorm, **dd)
        self.blocks = nn.Sequential(*[make(width) for _ in range(depth)])
        self.last = Block(width, device=device, dtype=dtype)
        self.head = head(width, dtype=dtype)

    def forward(self, x):
        return self.head(self.last(self.blocks(x)))
"""
GIVEN = {
    "by its name": ("head(width, dtype=dtype)", "head(width, dtype=torch.float64)"),
    "by its place": ("Block(width, device=device, dtype=dtype)", "Block(width, nn.LayerNorm, device, dtype)"),
    "among others": ("Block(width, device=device, dtype=dtype)", "Block(*sizes, dtype=dtype)"),
    "to a base": ("super().__init__()\n        dd", "super().__init__(dtype=torch.float16)\n        dd"),
}
READ = {
    "a test": (
        "super().__init__()\n        dd",
        "super().__init__()\n        if dtype is not None:\n            print(dtype)\n        dd",
    ),
    "another argument": ("nn.Tanh()", "nn.Tanh(), nn.Linear(width, width, bias=dtype)"),
    "a dict that is read": ("make = partial", "print(dd)\n        make = partial"),
    "another default": (
        "*, device=None, dtype=None):\n        super",
        "*, device=None, dtype=torch.float32):\n        super",
    ),
}


def plain(text: str) -> str:
    (made,) = with_plain_factories([Input(parse("x.py", text))])
    return made.source.module.code


def test_a_module_without_them(float64: None) -> None:
    """In torch as it is written, in JAX without."""
    assert_same(TEXT, Sample("M()", (3, 4)))


def test_no_parameter_is_left() -> None:
    made = plain(TEXT)
    assert "dtype" not in made and "device" not in made
    assert "def __init__(self, width=4, depth=2):" in made and "def head(width, *, bias=True):" in made


@pytest.mark.parametrize("how", GIVEN)
def test_where_a_type_is_given_all_stay(how: str) -> None:
    text = TEXT.replace(*GIVEN[how])
    assert plain(text) == text


@pytest.mark.parametrize("how", READ)
def test_where_one_is_read_it_stays(how: str) -> None:
    made = plain(TEXT.replace(*READ[how]))
    assert "dtype" in made


def test_functions_of_numpy_are_left() -> None:
    text = "import numpy as np\nimport torch\n\n\ndef made(n, dtype=None):\n    return np.zeros(n, dtype=dtype)\n"
    assert plain(text) == text
