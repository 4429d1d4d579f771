"""Generators of the script's own that hand on what they go through: `logger.log_every(loader, 20)`, which prints."""

from __future__ import annotations

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.results_followed import function_called
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def passed_on(scope: Scope, call: cst.Call) -> Expr | None:
    """What a generator that is called gives one by one, as it is; None of other calls."""
    facts = function_called(scope, call)
    taken = None if facts is None else _handed_on(facts.node)
    if facts is None or taken is None or any(arg.star for arg in call.args):
        return None
    names = facts.parameter_names[1:] if facts.owner_is_class else facts.parameter_names
    given = dict(zip(argument_names(call.args, names), (arg.value for arg in call.args), strict=True))
    return given.get(taken)


def _handed_on(node: cst.FunctionDef) -> str | None:
    """The parameter whose elements a function yields, each at its turn and nothing else; None where it is no such
    function."""
    yields = list(every(node.body, cst.Yield))
    if len(yields) != 1:
        return None
    for loop in every(node.body, cst.For):
        given = [suites.alone(one) for one in suites.suite_of(loop.body.body)]
        own = any(isinstance(one, cst.Expr) and one.value is yields[0] for one in given)
        if own and yields[0].value is not None and nodes.dotted(loop.target) == nodes.dotted(yields[0].value):
            return nodes.dotted(loop.iter)
    return None
