"""Tests for None: `x is None`, `x is not None`."""

from __future__ import annotations

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


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
