"""Train and eval modes that a flag tells: `model.train(training)`, and branches on what a phase is called."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.known.kinds import Place
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.lowering.unit import ToldMode
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


class ToldModes(Scope):
    """What is known of the mode of a model on the sides of a branch."""

    def mode_by(self, place: Place, flag: Expr) -> None:
        """`model.train(flag)`: what the mode is, the branches on the flag know."""
        if is_flag(flag) and self.context in HOST_CONTEXTS:
            self.env.told[place] = _told(flag, "train", "eval")

    def modes_where(self, test: Expr, holds: bool) -> None:
        """On one side of a branch, the modes that its test tells."""
        if not self.env.told:
            return
        flag, positive = flag_of(test)
        for place, told in self.env.told.items():
            if told.flag == flag:
                self.env.modes[place] = told.on if holds == positive else told.off

    def modes_told(self, test: Expr, one: Mapping[Place, str], other: Mapping[Place, str]) -> None:
        """After a branch whose sides leave models in different modes, its test tells them."""
        for place, mode in one.items() if is_flag(test) else ():
            left = other.get(place, mode)
            if left != mode and "mixed" not in (left, mode):
                self.env.told[place] = _told(test, mode, left)


def _told(test: Expr, on: str, off: str) -> ToldMode:
    flag, positive = flag_of(test)
    return ToldMode(flag, frozenset(usage.loads(test)), *((on, off) if positive else (off, on)))


def flag_of(test: Expr) -> tuple[str, bool]:
    """A test as it reads without its negation, and whether it has none: `not train`, `phase != "train"`."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        flag, positive = flag_of(test.expression)
        return flag, not positive
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (compared,) = test.comparisons
        if isinstance(compared.operator, cst.Equal | cst.NotEqual):
            sides = f"{nodes.code(test.left)} == {nodes.code(compared.comparator)}"
            return sides.replace("'", '"'), isinstance(compared.operator, cst.Equal)
    return nodes.code(test), True


def is_flag(test: Expr) -> bool:
    """Whether a test says the same wherever its names stand for the same: it calls nothing, and looks nothing up."""
    attributes = [nodes.dotted(node) or "self." for node in every(test, cst.Attribute)]
    looked_up = any(True for _ in every(test, (cst.Call, cst.Subscript)))
    return not looked_up and not any(path.startswith("self.") for path in attributes)
