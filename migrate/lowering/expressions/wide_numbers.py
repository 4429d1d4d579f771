"""Whole numbers that take more than 32 bits: `scores.masked_fill(mask, -2**32 + 1)`. torch has 64 for them, JAX 32.

With floats they are floats; JAX would not take them as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Kind, Number, Tensor
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_MOST = 2**31 - 1
_LONGEST = 64  # bits: what is longer is for Python to compute, if ever
_OPERATORS: dict[type[cst.BaseBinaryOp], Callable[[int, int], int]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
}


def narrow(value: Value, beside: Iterable[Kind], names: Mapping[str, Expr]) -> Value:
    """A value that meets tensors of some kinds. `names`: what variables stand for. Raises Unsupported where it is a
    number of integers' that JAX has no bits for."""
    if not isinstance(value.kind, Number):
        return value
    number = _number(value.node, names)
    if number is None or -_MOST - 1 <= number <= _MOST:
        return value
    if any(isinstance(kind, Tensor) and kind.dtype == "float" for kind in beside):
        plain = isinstance(value.node, cst.Integer)
        made = nodes.expression(f"{number}.0") if plain else nodes.call("float", nodes.bare(value.node))
        return replace(value, node=made)
    raise Unsupported("MIG302", f"{nodes.code(value.node)}: JAX's integers have 32 bits unless jax_enable_x64 is set")


def _number(node: Expr, names: Mapping[str, Expr]) -> int | None:
    """What an expression of whole numbers comes to; None for others, and for what is far too long."""
    if isinstance(node, cst.Name):
        others = {name: value for name, value in names.items() if name != node.value}
        return _number(names[node.value], others) if node.value in names else None
    if isinstance(node, cst.Integer):
        return node.evaluated_value
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        number = _number(node.expression, names)
        return None if number is None else -number
    if not isinstance(node, cst.BinaryOperation):
        return None
    left, right = _number(node.left, names), _number(node.right, names)
    if left is None or right is None:
        return None
    if type(node.operator) in _OPERATORS:
        return _OPERATORS[type(node.operator)](left, right)
    if isinstance(node.operator, cst.Power | cst.LeftShift) and 0 <= right <= _LONGEST and abs(left) <= _LONGEST:
        return left**right if isinstance(node.operator, cst.Power) else left << right
    return None
