"""Imports every family, and so registers every rule."""

from migrate.rules import (
    activation,
    casting,
    creation,
    elementwise,
    functional,
    indexing,
    joining,
    losses,
    pairwise,
    products,
    random,
    reductions,
    shaping,
)
from migrate.rules.rule import RULES, Rule

FAMILIES = (
    activation,
    casting,
    creation,
    elementwise,
    functional,
    indexing,
    joining,
    losses,
    pairwise,
    products,
    random,
    reductions,
    shaping,
)

__all__ = ["FAMILIES", "RULES", "Rule"]
