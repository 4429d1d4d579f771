"""Imports every family, and so registers every rule."""

from migrate.rules import creation, elementwise, functional, products, random, reductions, shaping
from migrate.rules.rule import RULES, Rule

FAMILIES = (creation, elementwise, functional, products, random, reductions, shaping)

__all__ = ["FAMILIES", "RULES", "Rule"]
