"""Modules without a constructor that have a method which the one of their base runs, `self.build()`: the input is taken
as if they called that constructor themselves, which is then written out in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.modules.constructors import methods_for_base
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Statement


def with_constructors_of_bases(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such constructors in them."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    classes = {one.name.value: one for one in module.body if isinstance(one, cst.ClassDef)}
    instead: dict[Statement, list[Statement]] = {}
    for node in classes.values():
        init = _constructor(node, classes)
        body = suites.suite_of(node.body.body)
        first = next((one for one in body if isinstance(one, cst.FunctionDef)), None)
        if init is not None and first is not None:
            instead[first] = [init, first]
    return Edits(instead)


def _constructor(node: cst.ClassDef, classes: Mapping[str, cst.ClassDef]) -> cst.FunctionDef | None:
    """The constructor that a class gets; None for other classes."""
    own = suites.methods_of(node)
    base = classes.get(nodes.dotted(node.bases[0].value) or "") if len(node.bases) == 1 else None
    theirs = suites.methods_of(base) if base is not None else {}
    init = theirs.get("__init__")
    if base is None or init is None or "__init__" in own or not _is_module(base):
        return None
    params = init.params
    if not methods_for_base(theirs, own) or isinstance(params.star_arg, cst.Param) or params.star_kwarg:
        return None
    names = [one.name.value for one in params.params[1:]]
    given = nodes.arguments(map(nodes.name, names), {one.name.value: one.name for one in params.kwonly_params})
    call = cst.Call(nodes.expression("super().__init__"), given)
    body = cst.IndentedBlock([cst.SimpleStatementLine([cst.Expr(call)])])
    return cst.FunctionDef(cst.Name("__init__"), params, body, leading_lines=[cst.EmptyLine(indent=False)])


def _is_module(node: cst.ClassDef) -> bool:
    return any((nodes.dotted(base.value) or "").rpartition(".")[2] == "Module" for base in node.bases)
