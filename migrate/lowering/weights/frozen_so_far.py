"""Which weights of a model require no gradient, as far as the script has run."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.frozen import Leaves
from migrate.known.kinds import Number, Place
from migrate.known.states import FROZEN
from migrate.lowering.statements.state import StateAccess
from migrate.lowering.weights.frozen_tests import ALWAYS, is_trained
from migrate.lowering.weights.leaves import leaves_of
from migrate.lowering.weights.made_without_gradient import frozen_as_made, frozen_somewhere, still_of
from migrate.rules.rule import Value
from migrate.syntax import nodes


class FrozenSoFar(StateAccess):
    """What is frozen here."""

    def frozen(self, model: Place) -> Leaves:
        """The leaves of a model that surely require no gradient."""
        return self.frozen_by_script(model) | frozen_as_made(self.script, model) | still_of(self.script, model)

    def frozen_by_script(self, model: Place) -> Leaves:
        """Those of them that statements of the script have frozen."""
        known = self.script.frozen
        if self.is_from_outside(model):
            return known.last(model) - known.perhaps.get(model, frozenset())
        inside = self.frozen_inside(model)
        return known.now(model) - self.perhaps_frozen(model) if inside is None else inside

    def perhaps_frozen(self, model: Place) -> Leaves:
        """The leaves that may be frozen or not."""
        known = self.script.frozen
        if self.is_from_outside(model):
            several = len(known.phases.get(model, ())) > 1 or model in known.switching
            return known.ever(model) if several else known.perhaps.get(model, frozenset())
        return known.found_perhaps.get(model, frozenset()) if self.frozen_inside(model) is None else frozenset()

    def is_from_outside(self, model: Place) -> bool:
        """Whether a function has a model from its callers, or from its file."""
        return model.scope != self.scope and self.facts is not None

    def frozen_inside(self, model: Place) -> Leaves | None:
        """What is frozen in the branch at hand, which makes the optimizer of the model anew; None elsewhere."""
        branch, leaves = self.script.frozen.inside.get(model, (0, frozenset[str]()))
        return leaves if branch in map(id, self.blocks) else None

    def frozen_when(self, place: Place, frozen: str) -> dict[str, str]:
        """The weights of a model that are, or may be, frozen here, each with the condition. `frozen`: what the set of
        frozen parts is called."""
        root, known = self.root(place), self.script.frozen
        if self.perhaps_frozen(root):
            known.switching.add(root)
        made = dict.fromkeys(self.frozen(root), ALWAYS)
        for part, leaves in known.parts(root).items() if root in known.switching else ():
            made |= dict.fromkeys(leaves, f'"{part}" in {frozen}')
        return made

    def frozen_here(self, place: Place) -> dict[str, str]:
        """The same for a statement of the host, which reads that set."""
        states = self.frozen_states([place])
        return self.frozen_when(place, nodes.code(self.read(states[0])) if states else FROZEN)

    def asked_of_weight(self, node: cst.Attribute) -> Value:
        """`p.requires_grad` of one parameter after the other."""
        if not frozen_somewhere(self.script):
            return Value(nodes.name("True"), Number())
        name, place = self.named_weights.get(nodes.dotted(node.value) or "", ("", None))
        if place is None:
            raise Unsupported("MIG302", f"{nodes.code(node)}, of a weight whose name is not at hand")
        leaves, when = leaves_of(self.script, self.root(place)), self.frozen_here(place)
        if not when:
            return Value(nodes.name("True"), Number())
        return Value(nodes.parenthesized(nodes.expression(is_trained(leaves, when, name))), Number())
