"""Tests for None: `x is None`, `x is not None`."""

from __future__ import annotations

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def asked_for_none(test: Expr) -> tuple[str, bool] | None:
    """The name that such a test asks for, and whether it holds where that is None; None for other tests."""
    match test:
        case cst.Comparison(
            left=cst.Name(value=name),
            comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot() as operator, comparator=other)],
        ) if nodes.is_literal(other, None):
            return name, isinstance(operator, cst.Is)
    return None
