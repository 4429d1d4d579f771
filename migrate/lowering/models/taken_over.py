"""What an object is given, it takes over: `self.model = model` in a trainer keeps the weights beside the model."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.known.kinds import Model, Optimizer, Scheduler
from migrate.known.states import State
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.statements.state import StateAccess
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Statement


class TakenOver(StateAccess, Binding):
    """Models, optimizers and schedulers that a constructor puts on its object."""

    def taken_over(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        """`self.model = model`: the object keeps the weights, too; of an optimizer and a scheduler, their state."""
        kind, place = value.kind, self.place_of(target)
        assert isinstance(kind, Model | Optimizer | Scheduler) and kind.place is not None
        made = suites.rebuilt(line, small, small.with_changes(value=value.node))
        if not place.of_self or place == kind.place:
            self.bind(target, kind)
            return made
        self.script.parameters_of[place] = kind.place
        own = replace(kind, place=place)
        if isinstance(own, Scheduler):
            own = replace(own, optimizer=self.held_as(place.scope, own.optimizer))
        self.bind(target, own)
        if isinstance(kind, Model):
            self.set_mode(place, self.env.modes.get(kind.place, "train"))
        if self.looked_at(place):
            return made
        for state in self.state_of(kind):
            kept = self.state_expr(State(state.what, place))
            made.append(nodes.statement("{own} = {given}", own=kept, given=self.read(state)))
        return made
