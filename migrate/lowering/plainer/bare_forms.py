"""Other ways to write the same: `layers = list()` for `layers = []`, and `self.add_module("norm", norm),` with a comma
behind a call whose result nobody takes."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every

_EMPTY = {"list": "[]", "dict": "{}"}


def with_bare_forms(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project as they are mostly written."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    own = set(usage.stores(module.body))
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        value = small.value if isinstance(small, cst.Assign | cst.Expr) else None
        if isinstance(small, cst.Assign) and isinstance(value, cst.Call) and not value.args:
            name = nodes.dotted(value.func) or ""
            if name in _EMPTY and name not in own:
                edits.parts[value] = nodes.expression(_EMPTY[name])
        elif isinstance(value, cst.Tuple) and not value.lpar and len(value.elements) == 1:
            called = value.elements[0].value
            if isinstance(small, cst.Expr) and isinstance(called, cst.Call):
                edits.parts[value] = called
    return edits
