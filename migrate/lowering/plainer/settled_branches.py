"""A body without what one call of its function settles: the branches that its arguments decide, and what it computes
for a result that the call does not take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.none_tests import asked_for_none
from migrate.syntax.per_parameter import parameters_of
from migrate.syntax.walking import every


def settled(body: Sequence[Statement], given: Mapping[str, Expr]) -> list[Statement]:
    """Statements with one side of each branch on whether an argument is None, or is true, where the call tells that."""
    fixed = {name: value for name, value in given.items() if name not in usage.stores(body)}
    made: list[Statement] = []
    for statement in body:
        small = suites.alone(statement)
        if isinstance(statement, cst.If):
            truth = _truth(statement.test, fixed)
            sides = [settled(side, fixed) for side in suites.sides(statement)]
            made += with_sides(statement, *sides) if truth is None else sides[0 if truth else 1]
        elif not isinstance(small, cst.Assert) or not _truth(small.test, fixed):
            made.append(statement)
    return made


def _truth(test: Expr, given: Mapping[str, Expr]) -> bool | None:
    """The truth of a test of one argument; None where the call does not tell it."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inside = _truth(test.expression, given)
        return None if inside is None else not inside
    asked = asked_for_none(test)
    value = given.get(asked[0] if asked is not None else nodes.dotted(test) or "")
    if asked is None:
        told = nodes.literal(value)
        return told if isinstance(told, bool) else None
    known = value is not None and (nodes.literal(value) is not ... or lists_parameters(value))
    return nodes.is_literal(value, None) == asked[1] if known else None


def lists_parameters(node: Expr) -> bool:
    """`model.parameters()`, which is the same wherever it stands, and gone through once."""
    model = parameters_of(node)
    return model is not None and nodes.dotted(model) is not None


def without_result(body: Sequence[Statement], result: Expr | None) -> list[Statement]:
    """Statements that do not keep what only the result needs, `norm = clip(...)`: they call it all the same."""
    name = result.value if isinstance(result, cst.Name) else None
    if name is None or name in usage.loads(body) or any(_adds_to(name, one) for one in body):
        return list(body)
    return _not_kept(body, name)


def _adds_to(name: str, statement: Statement) -> bool:
    return any(nodes.dotted(one.target) == name for one in every(statement, cst.AugAssign))


def _not_kept(body: Sequence[Statement], name: str) -> list[Statement]:
    made: list[Statement] = []
    for statement in body:
        match suites.alone(statement):
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value) if bound == name:
                if isinstance(value, cst.Call):
                    line = cst.ensure_type(statement, cst.SimpleStatementLine)
                    made.append(line.with_changes(body=[cst.Expr(value)]))
                elif usage.calls(value):
                    made.append(statement)
                continue
        if isinstance(statement, cst.If):
            made += with_sides(statement, *(_not_kept(side, name) for side in suites.sides(statement)))
        else:
            made.append(statement)
    return made


def with_sides(branch: cst.If, body: list[Statement], other: list[Statement]) -> list[Statement]:
    """A branch with other sides; nothing where nothing is left of it."""
    if not body and not other and not usage.calls(branch.test):
        return []
    orelse: cst.If | cst.Else | None = None
    if other:
        again = other[0] if len(other) == 1 and isinstance(branch.orelse, cst.If) else None
        orelse = again if isinstance(again, cst.If) else cst.Else(suites.block(other))
    return [branch.with_changes(body=suites.block(body or [nodes.statement("pass")]), orelse=orelse)]
