"""Settings that a constructor changes, its own or copies. In torch a part has them as they are when it is made, in Flax
as they are when it is called."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """\
import copy
from types import SimpleNamespace

import torch
import torch.nn as nn


class Part(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.doubled = config.doubled
        self.fc = nn.Linear(config.width, config.out)

    def forward(self, x):
        return self.fc(x) * (2 if self.doubled else 1)


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        {made}

    def forward(self, x):
        return self.last(self.first(x))


net = Net(SimpleNamespace(width=4, out=4, doubled=False, depth=3))
print(net(torch.ones(2, 4)))
"""
TWO = """\
own = copy.copy(config)
        own.out += 1
        self.first = Part(own)
        other = copy.deepcopy(config)
        other.doubled, other.width = True, own.out
        self.last = Part(other)"""
IN_A_LOOP = """\
parts = []
        for n in range(config.depth):
            own = copy.copy(config)
            if n:
                own.width = n + 3
                own.doubled = True
            own.out = n + 4
            parts.append(Part(own))
        self.first = nn.Sequential(*parts)
        self.last = nn.Identity()"""
AGAIN = (
    "own = config\n        self.first = Part(config)\n        config.doubled = True\n        self.last = Part(config)"
)
LATE = TWO + "\n        own.doubled, _ = True, 0"
LATER = TWO + "\n        own.out += 1"
ONE_COPY = IN_A_LOOP.replace("for n in", "own = copy.copy(config)\n        for n in").replace(
    "            own = copy.copy(config)\n            if", "            if"
)


@pytest.mark.parametrize("made", [TWO, IN_A_LOOP])
def test_copies(made: str) -> None:
    source = SCRIPT.format(made=made)
    conversion = convert(parse("net.py", source))
    assert not conversion.report.diagnostics
    theirs: dict[str, Any] = {"__name__": __name__}
    ours: dict[str, Any] = {"__name__": __name__}
    exec(source, theirs)
    exec(conversion.text, ours)
    for parameter in theirs["net"].parameters():
        torch.nn.init.ones_(parameter)
    params = jax.tree.map(jnp.ones_like, ours["params"])
    x = np.arange(8.0, dtype=np.float32).reshape(2, 4)
    wanted = theirs["net"](torch.from_numpy(x)).detach()
    np.testing.assert_allclose(ours["net"].apply({"params": params}, x), wanted)


@pytest.mark.parametrize("made", [AGAIN, LATE, LATER, ONE_COPY])
def test_refused_where_a_part_has_them_already(made: str) -> None:
    assert "MIG201" in {one.code for one in convert(parse("net.py", SCRIPT.format(made=made))).report.diagnostics}


REPEATS = """\
import torch.nn as nn


def cast_tuple(value, depth):
    return value if isinstance(value, tuple) else (value,) * depth


class Net(nn.Module):
    def __init__(self, width, depth, repeats):
        super().__init__()
        repeats = cast_tuple(repeats, depth)
        self.layers = nn.ModuleList([])
        for n, repeat in zip(range(depth), repeats):
            self.layers.append(nn.Sequential(*[nn.Linear(width, width) for _ in range(repeat)]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize("bound", ["cast_tuple(repeats, depth)", "tuple(repeats)", "list(reversed(repeats))"])
def test_an_argument_in_terms_of_itself(bound: str) -> None:
    """It is no constant: what stands in it is what it was before."""
    source = REPEATS.replace("repeats = cast_tuple(repeats, depth)", f"repeats = {bound}")
    assert not convert(parse("net.py", source)).report.diagnostics
