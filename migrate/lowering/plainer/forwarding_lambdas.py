"""Names for a lambda that only hands its arguments on, and the result to a device: `Variable = lambda *args, **kwargs:
autograd.Variable(*args, **kwargs).cuda() if CUDA else autograd.Variable(*args, **kwargs)`. They are taken as that."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_MOVING = ("cuda", "cpu")  # `to` may be given a type


def with_lambdas_named(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such names as what they stand for."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    bound = usage.stores(suites.bodies(module))
    bound += [one.name.value for one in every(module, cst.Param)]
    for line in suites.suite_of(module.body):
        small = suites.alone(line) if isinstance(line, cst.SimpleStatementLine) else None
        match small:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)], value=cst.Lambda() as function):
                meant = _handed_to(function)
                if meant is None or bound.count(name.value) != 1 or name.value == nodes.dotted(meant):
                    continue
                edits.instead[line] = []
                edits.parts |= {one: meant.deep_clone() for one in by_itself(module, name.value) if one is not name}
            case _:
                pass
    return edits


def _handed_to(function: cst.Lambda) -> Expr | None:
    """The function of `lambda *args, **kwargs: f(*args, **kwargs)`; None of other lambdas."""
    body, params = function.body, function.params
    others = [*params.params, *params.kwonly_params, *params.posonly_params]
    rest, named = params.star_arg, params.star_kwarg
    if others or not isinstance(rest, cst.Param) or named is None:
        return None
    given = [f"*{rest.name.value}", f"**{named.name.value}"]
    sides = [body.body, body.orelse] if isinstance(body, cst.IfExp) else [body]
    calls = [call for side in sides if isinstance(call := unchained(side, _MOVING), cst.Call) and _gives(call) == given]
    functions = {nodes.dotted(call.func) for call in calls}
    return calls[0].func if len(calls) == len(sides) and len(functions) == 1 and None not in functions else None


def _gives(call: cst.Call) -> list[str]:
    return [f"{arg.star}{nodes.code(arg.value)}" if arg.keyword is None else "" for arg in call.args]
