"""Loaders that a loop or a call is given as they are made, `for x, y in DataLoader(data, 4)` and
`train(net, DataLoader(data, 4))`, where a model made in the same scope takes an example of them.

The input is taken as if they had a name of their own, ahead of the statement, or of the loops around that change
nothing of what they are made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_LOOPS = (cst.For, cst.While)
_DATA = re.compile(r"(data_?set|data|set)$")


def with_loaders_named(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with names for such loaders; None where there are none."""
    wanted = lowered[0].script.unnamed_loaders
    if not wanted:
        return None
    edits = {one.scope: _edits(one.source.module, one.scope, wanted) for one in inputs}
    return [one.edited(edits[one.scope]) for one in inputs] if any(edits.values()) else None


def _edits(module: cst.Module, scope: str, wanted: set[tuple[str, int]]) -> Edits:
    edits = Edits()
    for function, body in _scopes(module):
        sites = {at for where, at in wanted if (where.endswith(f".{function}") if function else where == scope)}
        taken = {*usage.loads(body.body), *usage.changes(body)} if sites else set()
        for around in _statements(body, ()) if sites else ():
            for call in _given(around[-1]):
                if usage.site_of(call) in sites and call not in edits.parts:
                    name = usage.unused_name(_named_for(call), taken)
                    taken.add(name)
                    first = _ahead_of(around, call)
                    line = nodes.statement(f"{name} = {{call}}", call=call)
                    before = edits.ahead.get(first, [])
                    edits.ahead[first] = [*before, line] if before else suites.with_comments([line], first)
                    edits.parts[call] = nodes.name(name)
    return edits


def _scopes(module: cst.Module) -> Iterator[tuple[str, cst.Module | cst.BaseSuite]]:
    """The top level of a file, and its functions by their names."""
    yield "", module
    for function in every(module, cst.FunctionDef):
        yield function.name.value, function.body


def _statements(node: cst.Module | cst.BaseSuite, around: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """The statements of a scope, each behind those that it stands in."""
    for statement in suites.suite_of(node.body):
        yield (*around, statement)
        if not isinstance(statement, cst.FunctionDef | cst.ClassDef):
            for inner in every(statement, cst.IndentedBlock, (cst.IndentedBlock, cst.FunctionDef, cst.ClassDef)):
                yield from _statements(inner, (*around, statement))


def _given(statement: Statement) -> Iterator[cst.Call]:
    """The calls that a statement evaluates before anything else: what it goes through, or gives to a call."""
    small = suites.alone(statement)
    first = statement.iter if isinstance(statement, cst.For) else None
    if isinstance(small, cst.Expr | cst.Assign):
        first = small.value
    if isinstance(first, cst.Call):
        yield from ([first] if isinstance(statement, cst.For) else [])
        yield from _arguments(first)


def _arguments(call: cst.Call) -> Iterator[cst.Call]:
    """The calls among the arguments of one, in `enumerate` maybe, before which it evaluates no other."""
    if usage.calls(call.func):
        return
    for arg in call.args:
        if isinstance(arg.value, cst.Call) and not arg.star:
            yield arg.value
            yield from _arguments(arg.value)
        if usage.calls(arg.value):
            return


def _named_for(call: cst.Call) -> str:
    """`val_loader` of `val_set`."""
    data = (nodes.dotted(call.args[0].value) or "").rpartition(".")[2] if call.args else ""
    return _DATA.sub("loader", data) if _DATA.search(data) else "loader"


def _ahead_of(around: Sequence[Statement], call: cst.Call) -> Statement:
    """The statement that a loader may be made ahead of: a loop, where turns change nothing of what it is made of and
    it holds no calls, which might draw anew each time."""
    first = around[-1]
    plain = not any(usage.calls(arg.value) for arg in call.args)
    for outer in reversed(around[:-1]):
        changes = set(usage.changes(outer))
        if not plain or not isinstance(outer, _LOOPS) or changes & set(usage.loads(call)):
            break
        first = outer
    return first
