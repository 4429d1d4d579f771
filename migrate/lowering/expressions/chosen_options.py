"""Options that are chosen as the script runs: `F.mse_loss(x, y, reduction="mean" if averaged else "none")`."""

from __future__ import annotations

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


def by_chosen_option(node: cst.Call) -> Expr | None:
    """A choice between two calls in the place of a call with a choice between two texts; None of other calls. What such
    an option says is another function in JAX."""
    for number, arg in enumerate(node.args):
        choice = arg.value
        if arg.star or not isinstance(choice, cst.IfExp) or usage.calls(choice.test):
            continue
        sides = [nodes.literal(side) for side in (choice.body, choice.orelse)]
        if str not in map(type, sides) or not all(side is None or isinstance(side, str) for side in sides):
            continue
        args = [[*node.args[:number], arg.with_changes(value=side)] for side in (choice.body, choice.orelse)]
        body, orelse = (node.with_changes(args=[*given, *node.args[number + 1 :]]) for given in args)
        return cst.IfExp(choice.test, body, orelse)
    return None
