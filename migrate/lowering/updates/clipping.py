"""Clipping of gradients."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Place
from migrate.known.states import FROZEN, State
from migrate.known.weight_kinds import Selection
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.known_to_jit import need_value
from migrate.lowering.updates.region import Clip
from migrate.lowering.weights.frozen_tests import zeroed
from migrate.lowering.weights.leaves import leaves_of
from migrate.lowering.weights.selections import Selections
from migrate.rules.rule import signature
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Statement

_SIGNATURES = {
    "clip_grad_norm_": "parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None",
    "clip_grad_norm": "parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None",
    "clip_grad_value_": "parameters, clip_value, foreach=None",
}


class Clipping(Arguments, Selections):
    """What a call of a clipping function means."""

    def clipping(self, node: cst.Call) -> Clip:
        """The snippet that clips, and whose gradients."""
        name = self.torch_name(node.func) or ""
        given = node.args[0].value if node.args else None
        chosen = None if given is None else self.with_tensors(given) or self.one_of_them(given)
        models = self.trained_models(chosen)
        if models is None:
            raise Unsupported("MIG302", f"{nodes.code(node)}: other gradients than those of whole models")
        parameters = signature(_SIGNATURES[name.rpartition(".")[2]].partition(", ")[2])
        call = self.bind_call(name, parameters, node.args[1:])
        if "clip_value" in call.bound:
            return Clip("clip_grad_value", models, [call.node("clip_value")], False)
        call.only("error_if_nonfinite", False)
        limit = [call.node("max_norm")]
        self.refuse_left(node, models)
        if not call.has("norm_type") or nodes.is_literal(call.node("norm_type"), 2):
            return Clip("clip_grad_norm", models, limit, True)
        need_value(self, call.node("norm_type"))
        return Clip("clip_grad_p_norm", models, [*limit, call.node("norm_type")], True)

    def trained_models(self, selection: Selection | None) -> tuple[Place, ...] | None:
        """The models of a selection that leaves out nothing of them but what is frozen."""
        if selection is None:
            return None
        for place, leaves in selection.leaves:
            root = self.root(place)
            if {leaf.flax for leaf in self.weights_at(place)} - self.frozen(root) - set(leaves):
                return None
        return tuple(place for place, _ in selection.leaves)

    def refuse_left(self, node: cst.Call, models: Sequence[Place]) -> None:
        """Declines the norm of gradients that no optimizer clears: in torch they grow from step to step."""
        for place in models:
            if not self.script.frozen.left_by_all(self.root(place)):
                continue
            if f"{place.name}.zero_grad" not in map(nodes.dotted, usage.methods_called(self.unit.source.module)):
                told = f"gradients of weights that no optimizer has, and {place.name}.zero_grad() alone clears"
                raise Unsupported("MIG401", f"{nodes.code(node)}: {told}")

    def only_trained(self, place: Place, grads: str) -> list[Statement]:
        """In a step, the statement that leaves the gradients of frozen weights out of those of a model, which torch has
        not; none where nothing is frozen."""
        if self.root(place) in self.script.leaves:
            return []
        when = self.frozen_when(place, self.state_name(State(FROZEN, place)))
        if not when:
            return []
        return [nodes.statement(f"{grads} = {zeroed(leaves_of(self.script, self.root(place)), when, grads)}")]
