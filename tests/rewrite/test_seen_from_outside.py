"""What a script reads of a model from outside, and names that every Flax module has."""

from __future__ import annotations

import flax.linen
import jax.numpy as jnp
import pytest
import torch

from migrate.files.source import parse
from migrate.lowering.modules.names_of_flax import OWN
from migrate.pipeline import convert
from tests.conformance import rewritten

NET = """import math

import torch
import torch.nn as nn


def measured(n):
    print(n)
    return n + 1


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.kind = "small"
        self.half = width // 2


class Net(Base):
    def __init__(self, width, depth=2):
        super().__init__(width)
        self.hidden_size = 3 * width
        self.latent = math.ceil(self.hidden_size / 2)
        self.layers = depth
        {more}
        self.fc = nn.Linear(3, self.hidden_size)

    def forward(self, x):
        return self.fc(x) * self.latent


net = Net(4)
y = net(torch.ones(2, 3))
"""
READ = "told = (net.kind, net.half, net.hidden_size, net.latent, net.layers)\n"


def test_settings_that_follow_from_the_fields_are_properties() -> None:
    text = NET.format(more="pass") + READ
    made = rewritten.clean(text)
    assert "@property" in made.text
    theirs, ours = rewritten.executed(text), rewritten.executed(made.text)
    assert ours["told"] == theirs["told"] == ("small", 2, 12, 6, 2)
    assert jnp.shape(ours["y"]) == (2, 12)


def test_a_setting_by_way_of_a_variable() -> None:
    theirs, ours = rewritten.both(NET.format(more="n = width + 1; self.seen = n") + "told = net.seen\n")
    assert ours["told"] == theirs["told"] == 5


def test_what_nobody_reads_stays_in_setup() -> None:
    assert "@property" not in rewritten.clean(NET.format(more="pass")).text


@pytest.mark.parametrize(
    "more",
    [
        "self.seen = measured(width)",  # a function of the user's that does more than reckon
        "self.seen = [1, width]",  # a list that somebody may change
        "self.seen = 1; self.seen = width",
    ],
)
def test_others_are_refused_where_they_are_read(more: str) -> None:
    made = convert(parse("x.py", NET.format(more=more) + "print(net.seen)\n"))
    assert "net.seen: what the constructor of Net sets is not seen outside in Flax" in made.report.as_text()


def test_the_names_are_those_of_flax() -> None:
    public = {name for name in dir(flax.linen.Module) if not name.startswith("_")} - {*dir(torch.nn.Module)}
    assert public | {"name", "parent", "scope"} == OWN


@pytest.mark.parametrize("more", ['self.name = "net"', "self.path = width", "self.scope, self.x = 1, 2"])
def test_an_attribute_of_such_a_name_is_refused(more: str) -> None:
    made = convert(parse("x.py", NET.format(more=more)))
    assert "every Flax module has a" in made.report.as_text()


def test_a_method_of_such_a_name_is_refused() -> None:
    text = NET.format(more="pass").replace(
        "    def forward", "    def init(self, x):\n        return x\n\n    def forward"
    )
    assert "every Flax module has a `init`" in convert(parse("x.py", text)).report.as_text()


def test_an_argument_of_such_a_name_is_refused() -> None:
    """Flax takes it for the name of the module's weights, and forgets its default."""
    named = NET.replace("width, depth=2)", 'width, depth=2, name="n")').format(more="pass")
    assert "every Flax module has a `name`" in convert(parse("x.py", named)).report.as_text()


NUMBERED = "import torch\nimport torch.nn as nn\n\nnet = nn.Sequential(nn.Linear(3, 2))\nnet(torch.ones(1, 3))\n"


def test_what_a_part_by_its_number_has_is_refused() -> None:
    """Flax's layers have no such attributes: it stayed in the output, and failed when run."""
    (found,) = convert(parse("x.py", f"{NUMBERED}print(net[0].weight.grad_fn)\n")).report.diagnostics
    assert (found.code, found.line) == ("MIG301", 6)


def test_its_gradient_is_none_before_there_is_one() -> None:
    theirs, ours = rewritten.both(f"{NUMBERED}shown = net[0].weight.grad\n")
    assert theirs["shown"] is ours["shown"] is None


def test_variables_of_the_constructor_that_follow_from_the_fields_are_in_the_property() -> None:
    more = "rows, cols = (width, depth)\n        cells = rows * cols\n        self.cells = (1, cells // 2)"
    text = NET.format(more=more) + "told = net.cells\n"
    made = rewritten.clean(text)
    assert (
        "rows, cols = (self.width, self.depth)\n        cells = rows * cols\n        return (1, cells // 2)"
        in made.text
    )
    assert rewritten.executed(made.text)["told"] == rewritten.executed(text)["told"] == (1, 4)


@pytest.mark.parametrize(
    "more",
    [
        "cells = width; cells += 1; self.cells = cells",
        "cells = measured(width); self.cells = cells",
        "for cells in range(width): pass\n        self.cells = cells",
    ],
)
def test_other_variables_are_refused(more: str) -> None:
    made = rewritten.conversion(NET.format(more=more) + "told = net.cells\n")
    assert "net.cells: what the constructor of Net sets is not seen outside in Flax" in made.report.as_text()
