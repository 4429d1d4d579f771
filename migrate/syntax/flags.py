"""Tests that say the same wherever their names stand for the same."""

from __future__ import annotations

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_OPPOSITES: dict[type[cst.BaseCompOp], cst.BaseCompOp] = {cst.NotEqual: cst.Equal(), cst.NotIn: cst.In()}


def is_flag(test: Expr) -> bool:
    """Whether a test says the same wherever its names stand for the same: it calls nothing, and looks nothing up."""
    attributes = [nodes.dotted(node) or "self." for node in every(test, cst.Attribute)]
    looked_up = any(True for _ in every(test, (cst.Call, cst.Subscript)))
    return not looked_up and not any(path.startswith("self.") for path in attributes)


def flag_of(test: Expr) -> tuple[str, bool]:
    """A test as it reads without its negation, and whether it has none: `not train`, `phase != "train"`."""
    plain, positive = unnegated(test)
    return nodes.code(plain).replace("'", '"'), positive


def negation(test: Expr) -> Expr:
    """The opposite of a test, as it would be written: `"head" in name` of `"head" not in name`."""
    plain, positive = unnegated(test)
    if not positive:
        return plain
    if isinstance(plain, cst.BooleanOperation):
        operator = cst.Or() if isinstance(plain.operator, cst.And) else cst.And()
        left, right = (nodes.parenthesized(negation(side)) for side in (plain.left, plain.right))
        return plain.with_changes(left=left, operator=operator, right=right)
    if isinstance(plain, cst.Comparison) and len(plain.comparisons) == 1:
        (compared,) = plain.comparisons
        for negative, operator in _OPPOSITES.items():
            if isinstance(compared.operator, type(operator)):
                return plain.with_changes(comparisons=[compared.with_changes(operator=negative())])
    return cst.UnaryOperation(cst.Not(), nodes.parenthesized(test))


def unnegated(test: Expr) -> tuple[Expr, bool]:
    """A test without its negation, and whether it has none: `not train`, `name != "lstm"`, `name not in names`."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner, positive = unnegated(test.expression)
        return inner, not positive
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (compared,) = test.comparisons
        opposite = _OPPOSITES.get(type(compared.operator))
        if opposite is not None:
            return nodes.bare(test).with_changes(comparisons=[compared.with_changes(operator=opposite)]), False
    return nodes.bare(test), True
