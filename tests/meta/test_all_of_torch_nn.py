"""Every class of torch.nn is converted or refused by a code, and so is every argument of the constructors."""

from __future__ import annotations

import inspect
import typing

import pytest
import torch.nn as nn

from migrate.layers.refused import REFUSED, STRUCTURE
from migrate.layers.table import TABLE
from migrate.optimizers import LOSSES
from migrate.rules.catalogue import RULES
from migrate.rules.rule import signature
from tests.conformance import rewritten
from tests.meta.test_torch_names import resolve

CLASSES = {
    f"torch.nn.{name}": found
    for name, found in vars(nn).items()
    if isinstance(found, type) and issubclass(found, nn.Module)
}
# Functions that make a layer of another one are entries of the table as well.
MAKERS = {name: resolve(name) for name in TABLE if name.startswith("torch.nn.utils.")}
OF_GRAPHS = {name: resolve(name) for name in TABLE if name.startswith("torch_geometric.")}
# Of torch's own: private, or from before its present form; each is refused as no argument of the constructor.
OLD = {"_weight", "_freeze", "min_value", "max_value", "device", "dtype", "args", "kwargs"}


def test_each_class_is_in_one_place() -> None:
    places = [*TABLE, *LOSSES, *STRUCTURE, *REFUSED]
    assert sorted(places) == sorted(set(places))
    assert set(CLASSES) == set(places) - {*MAKERS, *OF_GRAPHS}


@pytest.mark.parametrize("name", [*TABLE, *LOSSES])
def test_each_argument_is_known(name: str) -> None:
    init = MAKERS[name] if name in MAKERS else (CLASSES | OF_GRAPHS)[name].__init__
    theirs = set(inspect.signature((typing.get_overloads(init) or [init])[0]).parameters) - {"self"}
    ours = {p.name for p in RULES[LOSSES[name]].parameters} if name in LOSSES else set()
    ours |= {p.name for p in signature(TABLE[name].signature)} if name in TABLE else set()
    assert theirs - OLD <= ours


@pytest.mark.parametrize("written", ["nn.Embedding(3, 4, _weight=w)", "nn.Hardtanh(min_value=-2.0)"])
def test_an_old_argument_is_refused(written: str) -> None:
    made = rewritten.conversion(f"import torch\nimport torch.nn as nn\n\nw = torch.zeros(3, 4)\nlayer = {written}\n")
    assert made.report.exit_code == 1


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_class_has_its_code(name: str) -> None:
    made = rewritten.conversion(f"import torch\n\nlayer = {name}()\n")
    (found,) = [diagnostic for diagnostic in made.report.diagnostics if diagnostic.code.startswith("MIG")]
    assert found.code == "MIG202" and REFUSED[name] in found.message
