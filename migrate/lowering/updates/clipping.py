"""Clipping of gradients."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.known_to_jit import need_value
from migrate.lowering.updates.region import Clip
from migrate.lowering.weights.selections import Selections
from migrate.rules.rule import signature
from migrate.syntax import nodes

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
        models = self.whole_models(self.selection(node.args[0].value)) if node.args else None
        if models is None or any(self.script.frozen.get(self.root(place)) for place in models):
            raise Unsupported("MIG302", f"{nodes.code(node)}: other gradients than those of whole models")
        parameters = signature(_SIGNATURES[name.rpartition(".")[2]].partition(", ")[2])
        call = self.bind_call(name, parameters, node.args[1:])
        if "clip_value" in call.bound:
            return Clip("clip_grad_value", models, [call.node("clip_value")], False)
        call.only("error_if_nonfinite", False)
        limit = [call.node("max_norm")]
        if not call.has("norm_type") or nodes.is_literal(call.node("norm_type"), 2):
            return Clip("clip_grad_norm", models, limit, True)
        need_value(self, call.node("norm_type"))
        return Clip("clip_grad_p_norm", models, [*limit, call.node("norm_type")], True)
