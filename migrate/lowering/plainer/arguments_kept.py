"""Constructors of modules that keep their arguments by looking at the frame around: `self.save_hyperparameters()` as
Dive into Deep Learning writes it.

In Flax there is no such frame: a constructor becomes a `setup`, and its parameters fields. The input is taken as if
these constructors kept each argument by its name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.project_classes import classes_of, is_module
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_KEEPING = ast.dump(
    ast.parse("""
frame = inspect.currentframe().f_back
_, _, _, local_vars = inspect.getargvalues(frame)
self.hparams = {k: v for k, v in local_vars.items() if k not in set(ignore + ["self"]) and not k.startswith("_")}
for k, v in self.hparams.items():
    setattr(self, k, v)
""")
)


def with_arguments_kept(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such constructors of modules written out, unless code asks for all that was kept."""
    functions = [one for file in inputs for one in every(file.source.module, cst.FunctionDef)]
    keeping = list(_keeping(functions))
    names = {one.name.value for one in keeping}
    others = [one for one in functions if one.name.value in names and one not in keeping]
    if not keeping or any(map(_does_something, others)):
        return list(inputs)
    if any("hparams" in usage.attributes(one.body) for one in functions if one not in keeping):
        return list(inputs)
    classes = classes_of(inputs)
    edits = {one.scope: Edits() for one in inputs}
    for name, cls in classes.items():
        init = cls.methods.get("__init__")
        if init is not None and is_module(name, classes):
            edits[cls.file.scope].instead |= _written_out(init, names)
    changed = {scope: each for scope, each in edits.items() if each.instead}
    return [
        replace(one, source=edited(one.source, changed[one.scope])) if one.scope in changed else one for one in inputs
    ]


def _keeping(functions: Sequence[cst.FunctionDef]) -> Iterator[cst.FunctionDef]:
    """The methods that put the variables of whoever calls them on the object."""
    for method in functions:
        looks = "f_back" in usage.attributes(method.body)
        body = cst.Module(suites.below_docstring(method)).code if looks else ""
        if looks and nodes.code(method.params).startswith("self, ignore") and ast.dump(ast.parse(body)) == _KEEPING:
            yield method


def _does_something(method: cst.FunctionDef) -> bool:
    """Whether a method is more than a place for another one: its body does more than to raise an exception."""
    return any(not isinstance(suites.alone(one), cst.Raise | cst.Pass) for one in suites.below_docstring(method))


def _written_out(init: cst.FunctionDef, names: set[str]) -> dict[Statement, list[Statement]]:
    """What the calls of such methods in a constructor stand for. One that has variables by then is left as it is."""
    found: dict[Statement, list[Statement]] = {}
    body = suites.suite_of(init.body.body)
    for number, line in enumerate(body):
        call = suites.call_alone(line)
        owner, _, name = (nodes.dotted(call.func) or "").rpartition(".") if call is not None else ("", "", "")
        ignored = _ignored(call) if call is not None and owner == "self" and name in names else None
        if ignored is None or usage.stores(body[:number]):
            continue
        given = [one.name.value for one in every(init.params, cst.Param)][1:]
        kept = [one for one in given if one not in ignored and not one.startswith("_")]
        made: list[Statement] = [nodes.statement(f"self.{one} = {one}") for one in kept]
        found[line] = suites.with_comments(made, line) if made else [nodes.statement("pass")]
    return found


def _ignored(call: cst.Call) -> list[object] | None:
    """What is not kept, as the call says; None where it is not written out."""
    if not call.args:
        return []
    given = call.args[0].value
    if len(call.args) > 1 or not isinstance(given, cst.List | cst.Tuple):
        return None
    found = [nodes.literal(one) for one in nodes.elements(given)]
    return None if ... in found else found
