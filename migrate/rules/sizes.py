"""Sizes that torch takes as one number for all axes, or as one for each."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import SIZES, Items, Kind
from migrate.rules.rule import Call, Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_READ = (cst.Name, cst.Attribute, cst.Subscript, cst.Call)  # of such an expression nothing more is told


def each_axis(call: Call, value: Value, count: int) -> Expr:
    """A size as a tuple, one for each axis: written out where it is told which of both it is."""
    if isinstance(value.node, cst.List):
        return nodes.tuple_of(nodes.elements(value.node))
    if isinstance(value.node, cst.Tuple) or isinstance(value.kind, Items):
        return value.node
    if value.kind == SIZES or (type(value.kind) is Kind and isinstance(value.node, _READ)):
        return nodes.call(call.snippet("for_each_axis"), value.node, nodes.expression(str(count)))
    return nodes.tuple_of([value.node] * count)
