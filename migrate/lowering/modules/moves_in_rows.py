"""Moves of channels inside an nn.Sequential that one of its functions makes.

A move of its own has a number in Flax's list, and none in torch's. Rows that an argument chooses between would have the
weights of one name in torch under two in Flax: `features.9` as `layers_12` or `layers_14`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_FUNCTIONS = ("nn", "jax", "jnp")


def absorbed(row: Sequence[Expr], layer: Expr, move: Callable[[Expr], Expr]) -> list[Expr] | None:
    """Layers in a row with a move before the last of them, `layer`: made by the first function of the row, or by the
    layer, where that is one; None where there is none."""
    x = nodes.name("x")
    for number, each in enumerate(row):
        made = _applied(each, x)
        if made is not None:
            return [*row[:number], _lambda(move(made)), *row[number + 1 :], layer]
    made = _applied(layer, move(x))
    return None if made is None else [*row, _lambda(made)]


def _applied(function: Expr, given: Expr) -> Expr | None:
    """What a function makes of `given`; None for modules, and for lambdas of anything but `x`."""
    if isinstance(function, cst.Lambda):
        return function.body if isinstance(given, cst.Name) and nodes.code(function.params) == given.value else None
    if isinstance(function, cst.Call) and nodes.dotted(function.func) == "partial":
        return cst.Call(function.args[0].value, [cst.Arg(given), *function.args[1:]])
    known = isinstance(function, cst.Attribute) and (nodes.dotted(function) or "").split(".")[0] in _FUNCTIONS
    return nodes.call(nodes.code(function), given) if known else None


def _lambda(body: Expr) -> Expr:
    return nodes.expression("lambda x: {body}", body=body)
