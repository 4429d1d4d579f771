"""Averages of weights: `torch.optim.swa_utils.AveragedModel`, a copy of a model that follows it."""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import Model
from migrate.lowering.arguments import Arguments
from migrate.lowering.state import StateAccess
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value, signature
from migrate.states import BATCH_STATS, COUNT, PARAMS, State

_AVERAGED = "model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False"
_PACKAGE = "torch.optim.swa_utils."
_MEANS = (f"{_PACKAGE}get_swa_avg_fn", f"{_PACKAGE}get_swa_multi_avg_fn")
_DECAYING = (f"{_PACKAGE}get_ema_avg_fn", f"{_PACKAGE}get_ema_multi_avg_fn")


class Averaging(Arguments, StateAccess):
    """Models that average the weights of another one."""

    def torch_optim_swa_utils_AveragedModel(self, node: cst.Call) -> Value:
        """A copy, with the number of updates that it has taken; what an update weighs is remembered."""
        weighed = [arg for arg in node.args if _is_keyword(arg, "avg_fn", "multi_avg_fn")]
        others = [arg for arg in node.args if arg not in weighed]
        call = self.bind_call(f"{_PACKAGE}AveragedModel", signature(_AVERAGED), others)
        call.only("avg_fn", None)
        call.only("use_buffers", False)
        kind = call.kind("model")
        if not isinstance(kind, Model) or kind.place is None:
            raise Unsupported("MIG302", f"{call.api} of {nodes.code(call.node('model'))}, which is no known model")
        self.script.averaging[self.pending_place] = self.weighing(weighed[0].value if weighed else None)
        mode = self.env.modes.get(kind.place, "train")
        return Value(call.node("model"), Model(kind.cls, None, kind.place, mode))

    def weighing(self, written: Expr | None) -> str:
        """How much an update counts after the first one, which is a copy: `{n}` is the number of those before it."""
        if written is None or nodes.is_literal(written, None):
            return "1 / ({n} + 1)"
        name = self.torch_name(written.func) if isinstance(written, cst.Call) else None
        if name in _MEANS:
            return "1 / ({n} + 1)"
        if name not in _DECAYING or not isinstance(written, cst.Call) or len(written.args) > 1:
            raise Unsupported("MIG302", f"AveragedModel with {nodes.code(written)}")
        decay = self.node(written.args[0].value) if written.args else cst.Float("0.999")
        value = nodes.literal(decay)
        rest = f"{1 - value:.12g}" if isinstance(value, float) else f"1 - {nodes.code(nodes.parenthesized(decay))}"
        return f"{rest} if {{n}} else 1"

    def keeps_no_statistics(self, node: cst.Call) -> bool:
        """Whether `update_bn(loader, model)` has nothing to do: the model has no batch norm."""
        kind = self.kind_of(node.args[1].value) if len(node.args) > 1 else None
        return isinstance(kind, Model) and not self.stats_of(kind)

    def update_average(self, node: cst.Call, kind: Model) -> list[Statement]:
        """`average.update_parameters(model)`: the first update is a copy; the buffers are always copied."""
        place, source = kind.place, self.kind_of(node.args[0].value) if len(node.args) == 1 else None
        if place is None or not isinstance(source, Model) or source.place is None:
            raise Unsupported("MIG302", f"{nodes.code(node)}: what is averaged is no known model")
        params, count = State(PARAMS, place), State(COUNT, place)
        number = self.read(count)
        weighing = nodes.expression(self.script.averaging[self.root(place)], n=number)
        new, old = self.read(State(PARAMS, source.place)), self.read(params)
        mixed = nodes.call("optax.incremental_update", new, old, weighing)
        made: list[Statement] = [nodes.statement("{p} = {mixed}", p=self.write(params), mixed=mixed)]
        if self.stats_of(kind):
            stats, given = self.write(State(BATCH_STATS, place)), self.read(State(BATCH_STATS, source.place))
            made.append(nodes.statement("{s} = jax.tree.map(jnp.copy, {given})", s=stats, given=given))
        return [*made, nodes.statement("{n} += 1", n=self.write(count))]


def _is_keyword(arg: cst.Arg, *names: str) -> bool:
    return arg.keyword is not None and arg.keyword.value in names
