"""Other ways to write the same: `layers = list()` for `layers = []`, and `self.add_module("norm", norm),` with a comma
behind a call whose result nobody takes, and `self.eps, self.weight = eps, nn.Parameter(...)` for two statements."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_MADE = re.compile(r"\b(Parameter|partial)\(")
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
        elif isinstance(small, cst.Expr) and isinstance(value, cst.Tuple) and not value.lpar:
            called = value.elements[0].value
            if len(value.elements) == 1 and isinstance(called, cst.Call):
                edits.parts[value] = called
        elif isinstance(small, cst.Assign) and (apart := _apart(small)):
            edits.instead[line] = suites.with_comments(apart, line)
    return edits


def _apart(small: cst.Assign) -> list[Statement]:
    """An assignment of several at once, weights or makers of layers among them, as one for each; nothing where its
    values may read what it sets."""
    target = small.targets[0].target
    if len(small.targets) != 1 or not isinstance(target, cst.Tuple) or not isinstance(small.value, cst.Tuple):
        return []
    if not _MADE.search(nodes.code(small.value)):
        return []
    targets, values = nodes.elements(target), nodes.elements(small.value)
    paths = [path for one in targets if (path := nodes.dotted(one)) is not None]
    read = {path for value in values for path in usage.paths(value)}
    if len(paths) != len(values) or len(targets) != len(values) or read & set(paths):
        return []
    return [nodes.statement("{t} = {v}", t=one, v=value) for one, value in zip(targets, values, strict=True)]
