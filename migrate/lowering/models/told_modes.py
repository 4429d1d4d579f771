"""Train and eval modes that a flag tells: `model.train(training)`, and branches on what a phase is called; and modes
that a script asks for, `was_training = model.training`."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.known.kinds import UNKNOWN, ModeFlag, Model, Place
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.state import StateAccess
from migrate.lowering.unit import ToldMode
from migrate.syntax import nodes, suites, usage
from migrate.syntax.flags import flag_of, is_flag
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


class ToldModes(StateAccess):
    """What is known of the mode of a model on the sides of a branch."""

    def mode_by(self, place: Place, flag: Expr) -> None:
        """`model.train(flag)`: what the mode is, the branches on the flag know."""
        if is_flag(flag) and self.context in HOST_CONTEXTS:
            self.env.told[place] = _told(flag, "train", "eval")

    def asked_mode(self, node: Expr) -> ModeFlag | None:
        """Whether `model.training`, on the host, is asked for, and what it is; None for other expressions."""
        if not isinstance(node, cst.Attribute) or node.attr.value != "training" or self.context not in HOST_CONTEXTS:
            return None
        kind = self.kind_of(node.value)
        place = kind.place if isinstance(kind, Model) else None
        if place is None:
            return None
        return ModeFlag(self.env.modes.get(place, "train"), place not in self.changed_modes)

    def only_restores(self, name: str) -> bool:
        """Whether a name of a mode is read for nothing but to put a model back into it: `model.train(name)`,
        `if name: model.train()`."""
        body = self.own_body
        calls = [one for one in usage.calls(body) if (nodes.dotted(one.func) or "").endswith(".train")]
        given = [one for one in calls if len(one.args) == 1 and nodes.dotted(one.args[0].value) == name]
        tests = [one for one in every(body, cst.If) if nodes.dotted(one.test) == name and _puts_back(one) is not None]
        return usage.stores(body).count(name) == 1 and usage.loads(body).count(name) == len(given) + len(tests)

    def restoring_call(self, node: cst.If) -> cst.Call | None:
        """`model.train(was_training)` for `if was_training: model.train()` of a model that is in eval mode; None for
        other branches."""
        call = _puts_back(node) if isinstance(self.kind_of(node.test), ModeFlag) else None
        kind = self.kind_of(call.func.value) if call is not None and isinstance(call.func, cst.Attribute) else UNKNOWN
        if call is None or not isinstance(kind, Model) or kind.place is None:
            return None
        told = call.with_changes(args=[cst.Arg(node.test)])
        return told if self.env.modes.get(kind.place) == "eval" else None

    def mode_restored(self, place: Place, flag: Expr) -> bool:
        """`model.train(was_training)`: the mode is again what it was when it was asked for. Whether that is known."""
        kind = self.kind_of(flag) if isinstance(flag, cst.Name) else UNKNOWN
        if not isinstance(kind, ModeFlag):
            return False
        self.set_mode(place, kind.mode)
        if kind.untouched and not self.conditions and not self.loops:
            self.changed_modes.discard(place)
        return True

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


def _puts_back(node: cst.If) -> cst.Call | None:
    """The call of a branch that only puts a model into train mode, if a name says so."""
    body = suites.suite_of(node.body.body)
    call = suites.call_alone(body[0]) if len(body) == 1 and node.orelse is None else None
    if call is None or call.args or not isinstance(node.test, cst.Name):
        return None
    return call if (nodes.dotted(call.func) or "").endswith(".train") else None


def _told(test: Expr, on: str, off: str) -> ToldMode:
    flag, positive = flag_of(test)
    return ToldMode(flag, frozenset(usage.loads(test)), *((on, off) if positive else (off, on)))
