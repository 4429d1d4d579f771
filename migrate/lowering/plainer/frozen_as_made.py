"""Parameters that a constructor freezes once it has made them: `self.w = nn.Parameter(v)`, and then
`self.w.requires_grad = False`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


def frozen_parameters(
    suite: cst.BaseSuite, is_parameter: Callable[[Expr], bool]
) -> tuple[set[Statement], set[cst.Call]]:
    """The statements of a block that do nothing but freeze a parameter which the block makes, and the calls that make
    those. `is_parameter`: whether a function expression is `nn.Parameter`."""
    freezing: set[Statement] = set()
    calls: set[cst.Call] = set()
    made: dict[str, cst.Call | None] = {}
    for statement in suites.suite_of(suite.body):
        call = made.get(frozen_attribute(statement))
        if call is not None:
            freezing.add(statement)
            calls.add(call)
        branch: cst.If | cst.Else | None = statement if isinstance(statement, cst.If) else None
        while branch is not None:
            inner = frozen_parameters(branch.body, is_parameter)
            freezing, calls = freezing | inner[0], calls | inner[1]
            branch = branch.orelse if isinstance(branch, cst.If) else None
        made |= dict.fromkeys(usage.attributes_set(statement))
        made |= _made(statement, is_parameter)
    return freezing, calls


def without_gradient(call: cst.Call) -> cst.Call:
    """The call of a parameter that has none."""
    return call.with_changes(args=nodes.extended(call.args, {"requires_grad": nodes.name("False")}))


def _made(statement: Statement, is_parameter: Callable[[Expr], bool]) -> Mapping[str, cst.Call]:
    """The parameter that a statement makes, by its attribute."""
    match statement:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Attribute(value=cst.Name(value="self"), attr=attribute))],
                    value=cst.Call(args=[cst.Arg(keyword=None, star="")]) as call,
                )
            ]
        ) if is_parameter(call.func):
            return {attribute.value: call}
    return {}


def frozen_attribute(statement: Statement) -> str:
    """The attribute that `self.w.requires_grad = False`, or `self.w.requires_grad_(False)`, freezes; "" of others."""
    small = suites.alone(statement)
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() as target)], value=value):
            path = nodes.dotted(target) or ""
            name, _, switch = path.removeprefix("self.").partition(".")
        case cst.Expr(value=cst.Call(func=cst.Attribute() as target, args=[cst.Arg(value=value)])):
            path = nodes.dotted(target) or ""
            name, _, switch = path.removeprefix("self.").partition(".")
            switch = switch.removesuffix("_")
        case _:
            return ""
    own = path.startswith("self.") and switch == "requires_grad"
    return name if own and nodes.is_literal(value, False) else ""
