"""`from torch.nn import *`: what a file uses of a module is not told by its text.

The input is taken as if each star were the names that the file uses of it. Where the module is another file of the
project, the star stays: what that file binds is known.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import libcst as cst

from migrate.known.starred import PYTHON, names_of
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import suites, usage
from migrate.syntax.imported import module_written
from migrate.syntax.nodes import Statement
from migrate.syntax.scopes import read_from_outside


def with_stars_named(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without stars from modules whose names are known. Where files have stars from one another,
    each may use what another one has taken."""
    stars = [_stars(one.source.module) for one in inputs]
    if not any(names_of(module) for found in stars for module in found.values()):
        return list(inputs)
    read = [read_from_outside(one.source.text) for one in inputs]
    if any(module in one.links for one, found in zip(inputs, stars, strict=True) for module in found.values()):
        read = [set[str]().union(*read)] * len(read)
    return [
        one.edited(_edits(one.source.module, found, names))
        for one, found, names in zip(inputs, stars, read, strict=True)
    ]


def _stars(module: cst.Module) -> dict[Statement, str]:
    """The imports of a file that name nothing, with the modules that they are from."""
    found: dict[Statement, str] = {}
    for line in suites.suite_of(module.body):
        small = suites.alone(line)
        if isinstance(small, cst.ImportFrom) and isinstance(small.names, cst.ImportStar):
            found[line] = module_written(small)
    return found


def _edits(module: cst.Module, stars: Mapping[Statement, str], read: Container[str]) -> Edits:
    edits, below = Edits(), set[str]()
    for line in reversed(suites.suite_of(module.body)):
        home, known = stars.get(line, ""), names_of(stars.get(line, ""))
        taken = sorted(name for name in known if name in read and name not in below)
        if known and not taken and home not in PYTHON:
            edits.instead[line] = []
        elif taken:
            small = cst.ensure_type(suites.alone(line), cst.ImportFrom)
            named = small.with_changes(names=[cst.ImportAlias(cst.Name(name)) for name in taken])
            edits.instead[line] = [line.with_changes(body=[named])]
        below |= {*usage.stores(line), *taken}
    return edits
