"""Tests for None: `x is None`, `x is not None`."""

from __future__ import annotations

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


def asked_for_none(test: Expr) -> tuple[str, bool] | None:
    """The name that such a test asks for, and whether it holds where that is None; None for other tests."""
    found = tested_for_none(test)
    return (found[0].value, found[1]) if found is not None and isinstance(found[0], cst.Name) else None


def tested_for_none(test: Expr) -> tuple[Expr, bool] | None:
    """The same of whatever such a test is about."""
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot() as operator, comparator=other)],
        ) if nodes.is_literal(other, None):
            return left, isinstance(operator, cst.Is)
    return None


def where_it_is(statement: Statement) -> list[Statement]:
    """What a statement does with a value that is there: the body of `if x is not None: x = x.detach()`, which alone
    binds x. Itself for other statements."""
    asked = asked_for_none(statement.test) if isinstance(statement, cst.If) and statement.orelse is None else None
    if not isinstance(statement, cst.If) or asked is None or asked[1]:
        return [statement]
    body = suites.suite_of(statement.body.body)
    return body if set(usage.stores(body)) == {asked[0]} else [statement]
