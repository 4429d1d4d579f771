"""Clipping of gradients."""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import Parameters
from migrate.lowering.arguments import Arguments
from migrate.lowering.region import Clip
from migrate.rules.rule import signature

_SIGNATURES = {
    "clip_grad_norm_": "parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None",
    "clip_grad_norm": "parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None",
    "clip_grad_value_": "parameters, clip_value, foreach=None",
}


class Clipping(Arguments):
    """What a call of a clipping function means."""

    def clipping(self, node: cst.Call) -> Clip:
        """The snippet that clips, and whose gradients."""
        name = self.torch_name(node.func) or ""
        with self.naming_parameters():
            call = self.bind_call(name, signature(_SIGNATURES[name.rpartition(".")[2]]), node.args)
        kind = call.kind("parameters")
        if not isinstance(kind, Parameters) or kind.named:
            raise Unsupported("MIG302", f"{nodes.code(node)}: other gradients than those of whole models")
        if "clip_value" in call.bound:
            return Clip("clip_grad_value", kind.models, [call.node("clip_value")], False)
        call.only("error_if_nonfinite", False)
        limit = [call.node("max_norm")]
        if not call.has("norm_type") or nodes.is_literal(call.node("norm_type"), 2):
            return Clip("clip_grad_norm", kind.models, limit, True)
        return Clip("clip_grad_p_norm", kind.models, [*limit, call.node("norm_type")], True)
