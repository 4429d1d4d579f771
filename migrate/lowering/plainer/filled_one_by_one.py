"""Loops that fill the weights of several models, or of parts of one, taken as a loop, or as statements, for each:
`for p in [*a.parameters(), *b.parameters()]: nn.init.ones_(p)`, `for m in (net[0], net[2]): nn.init.ones_(m.bias)`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def with_filled_one_by_one(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such loops apart."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    found = {loop: _apart(loop) for loop in every(module, cst.For)}
    return Edits({loop: suites.with_comments(apart, loop) for loop, apart in found.items() if apart})


def _apart(loop: cst.For) -> list[Statement]:
    """What stands for such a loop; nothing for others."""
    body = suites.suite_of(loop.body.body)
    if loop.orelse is not None or not isinstance(loop.target, cst.Name) or not all(map(_fills, body)):
        return []
    several = _several(loop.iter)
    if len(several) > 1:
        return [loop.with_changes(iter=one, leading_lines=[]) for one in several]
    match loop.iter:
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            parts = [one.value for one in elements if isinstance(one, cst.Element)]
            plain = all(isinstance(nodes.root(part), cst.Name) and not usage.calls(part) for part in parts)
            if len(parts) == len(elements) and plain and any(isinstance(part, cst.Subscript) for part in parts):
                return [nodes.substituted(one, {loop.target.value: part}) for part in parts for one in body]
    return []


def _fills(statement: Statement) -> bool:
    """Whether a statement fills a weight: `nn.init.ones_(p)`, `p.data.zero_()`."""
    call = suites.call_alone(statement)
    return call is not None and isinstance(call.func, cst.Attribute) and usage.is_in_place(call.func.attr.value)


def _several(row: Expr) -> list[Expr]:
    """The lists of parameters that a row puts together, in turn; nothing where it has something else in it."""
    parts: list[Expr] = []
    match row:
        case cst.List(elements=elements) | cst.Tuple(elements=elements) if all(
            isinstance(one, cst.StarredElement) for one in elements
        ):
            parts = [one.value for one in elements]
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            sides = _several(left), _several(right)
            return [*sides[0], *sides[1]] if all(sides) else []
        case cst.Call(func=func, args=args) if nodes.dotted(func) in ("itertools.chain", "chain"):
            parts = [arg.value for arg in args]
        case cst.Call(func=cst.Name("list"), args=[cst.Arg(value=inner)]):
            parts = [inner]
    return parts if all(_lists_weights(part) for part in parts) else []


def _lists_weights(node: Expr) -> bool:
    return isinstance(node, cst.Call) and nodes.code(node.func).endswith(".parameters") and not node.args
