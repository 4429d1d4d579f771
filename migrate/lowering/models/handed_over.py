"""Functions that make models and optimizers for others: `model, optimizer = build(args)`.

What such a function returns has no weights or state yet where it did nothing with them: its caller makes those, as if
it had made the objects itself. Where it has trained them, it returns their weights as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Kind, Model, Optimizer, Place, Plain, Scheduler
from migrate.known.qualified import spelled
from migrate.known.states import COUNT, State
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.expressions.user_calls import UserCalls
from migrate.lowering.initial.initialisation import Initialisation
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.weights.frozen_weights import frozen_as_received
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


class HandedOver(Initialisation, UserCalls):
    """Objects on their way from the function that makes them to the scope that uses them."""

    def hand_over(self, kind: Kind) -> None:
        """Notes what a `return` gives away. Weights that were used here are variables of this function: they stay."""
        for part in kinds_in(kind):
            place = part.place if isinstance(part, Model | Optimizer | Scheduler) else None
            if isinstance(part, Scheduler) and self.hands_over_schedule(part, kind):
                self.script.handed.add(part.place)
                continue
            if isinstance(part, Optimizer) and place == NOWHERE:
                raise Unsupported(
                    "MIG404", f"an optimizer is made in {spelled(self.scope)} and returned without a name"
                )
            if isinstance(part, Optimizer) and self.warms_up(part, kind):
                raise Unsupported("MIG404", f"a scheduler of {part.place.name} has set its rate, and is not returned")
            if place is None or self.passed_in(place) or place.scope != self.scope or self.facts is None:
                continue
            whole = isinstance(kind, Items) and kind.items is not None and part in kind.items
            given = isinstance(part, Model | Optimizer) and self.context in HOST_CONTEXTS and (part is kind or whole)
            if given and place in self.touched and self.ends_here():
                self.script.handed.discard(place)
                self.script.given_up.add(place)
                self.pending = [entry for entry in self.pending if entry[1] != place or entry[0] != "model"]
                continue
            if not given or place in self.touched:
                self.script.handed.discard(place)
                made = f"{place.name or 'an optimizer'} is made in {spelled(self.scope)}"
                raise Unsupported("MIG404", f"{made} and returned, apart from its weights")
            self.script.handed.add(place)
            self.pending = [entry for entry in self.pending if entry[1] != place]

    def warms_up(self, part: Optimizer, returned: Kind) -> bool:
        """Whether a scheduler that a function keeps for itself has set the rate of an optimizer that it returns."""
        kept = [kind for kind in self.env.kinds.values() if isinstance(kind, Scheduler) and kind.starts]
        return any(kind.optimizer == part.place and kind not in kinds_in(returned) for kind in kept)

    def hands_over_schedule(self, part: Scheduler, returned: Kind) -> bool:
        """Whether a function returns a scheduler that it has made and not stepped: its caller counts the steps."""
        own = part.place.scope == self.scope and not self.passed_in(part.place) and part.place not in self.touched
        whole = part is returned or (isinstance(returned, Items) and part in (returned.items or ()))
        return own and whole and not part.cycles and self.context == "function" and self.facts is not None

    def on_its_way(self, kind: Kind) -> Kind:
        """What a function returns, as its caller sees it: a scheduler that has no name yet."""
        if isinstance(kind, Items) and kind.items is not None:
            return replace(kind, items=tuple(map(self.on_its_way, kind.items)))
        handed = isinstance(kind, Scheduler) and kind.place in self.script.handed
        return replace(kind, place=NOWHERE) if handed else kind

    def without_state(self, targets: Sequence[cst.CSTNode], kind: Kind) -> list[Statement]:
        """`scheduler = None` of what a function is given with its state: that is None as well until there is one."""
        places = [self.place_of(target) for target in targets] if kind == Plain("None") else []
        states = sorted(state for state in self.script.passed_on if state.place in places)
        return [nodes.statement("{state} = None", state=self.state_expr(state)) for state in states]

    def received(
        self,
        line: cst.SimpleStatementLine,
        small: cst.Assign,
        target: cst.BaseAssignTargetExpression,
        value: Value,
        written: Sequence[Expr] = (),
    ) -> list[Statement]:
        """`model, optimizer = build(args)`: their weights and state are made here, or come with them; `written`: what
        comes before."""
        parts: list[tuple[cst.BaseExpression, Kind]] = []
        if isinstance(value.kind, Items) and isinstance(target, cst.Tuple) and value.kind.items is not None:
            elements = [element.value for element in target.elements]
            if len(elements) == len(value.kind.items):
                parts = list(zip(elements, value.kind.items, strict=True))
        elif isinstance(target, cst.Name | cst.Attribute):
            parts = [(target, value.kind)]
        if not parts or any(nodes.dotted(name) is None for name, _ in parts):
            raise Unsupported("MIG404", f"what {nodes.code(small.value)} makes needs a name of its own")
        own: dict[Place, Place] = {}
        states: list[State] = []
        frozen: list[Statement] = []
        for name, kind in parts:
            if isinstance(kind, Model | Optimizer) and kind.place in self.script.given_up:
                states += self.state_of(replace(kind, place=self.place_of(name)))
        for name, kind in parts:
            self.define_target(name, None)
            if isinstance(kind, Model) and kind.place in self.script.handed | self.script.given_up:
                own[kind.place] = place = self.place_of(name)
                self.script.made_as[place] = kind.place
                self.script.places[place] = kind.cls
                frozen += frozen_as_received(self, place, kind.place)
                self.bind(name, Model(kind.cls, place))
                self.env.modes[place] = self.script.functions[kind.place.scope].left_in.get(kind.place, "train")
                if kind.place in self.script.perhaps_loaded:
                    self.script.perhaps_loaded.add(place)
                elif kind.place in self.script.given_up:
                    self.ready.add(place)
                    continue
                self.ready.discard(place)
                self.make_later(place, line)
        for name, kind in parts:
            if isinstance(kind, Optimizer) and kind.place in self.script.handed | self.script.given_up:
                place = self.place_of(name)
                models = tuple(own.get(model) or self.script.parameters_of.get(model, model) for model in kind.models)
                self.script.parameters_of[place] = kind.place
                self.script.optimizers[place] = models
                self.optimizer_models[place] = models
                self.outlive(place)
                self.bind(name, Optimizer(place, models))
                rate = self.rates.get(kind.place)
                if rate is not None and usage.loads(rate):
                    self.rates.pop(kind.place)  # it is written with names of the function
                if kind.place in self.script.handed:
                    self.pending.append(("optimizer", place, small))
            elif not isinstance(kind, Model) or kind.place not in own:
                self.bind(name, kind)
        counts = [*frozen, *self.received_schedules(small, parts)]
        targets = [*written, *map(self.write, states)]
        if not targets:
            return [*suites.rebuilt(line, small, small.with_changes(value=value.node)), *counts]
        return [*suites.assigned(line, nodes.bare_tuple([*targets, target]), value.node), *counts]

    def received_schedules(
        self, small: cst.Assign, parts: Sequence[tuple[cst.BaseExpression, Kind]]
    ) -> list[Statement]:
        """The counters of schedulers that come with their optimizers."""
        optimizers = {kind.place: self.place_of(name) for name, kind in parts if isinstance(kind, Optimizer)}
        made: list[Statement] = []
        for name, kind in parts:
            if not isinstance(kind, Scheduler) or kind.place != NOWHERE or kind.optimizer not in optimizers:
                continue
            place = self.place_of(name)
            self.bind(name, replace(kind, place=place, optimizer=optimizers[kind.optimizer]))
            if kind.starts:
                self.pending.append(("rate", place, small))
            if not kind.is_object:
                made.append(nodes.statement("{count} = 0", count=self.state_expr(State(COUNT, place))))
        return made

    def handed(self, kind: Kind) -> bool:
        """Whether a value is, or holds, what a function made for its caller."""
        there = self.script.handed | self.script.given_up
        return any(isinstance(part, Model | Optimizer) and part.place in there for part in kinds_in(kind))
