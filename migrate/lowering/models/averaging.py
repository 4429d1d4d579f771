"""Averages of weights: `torch.optim.swa_utils.AveragedModel`, a copy of a model that follows it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import Averaged
from migrate.known.kinds import Function, Model
from migrate.known.states import BATCH_STATS, COUNT, PARAMS, State
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.models.jitted_passes import copy_of
from migrate.lowering.statements.state import StateAccess
from migrate.rules.rule import Value, signature
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every
from migrate.weights import counts_batches, weights_of

_AVERAGED = "model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False"
_PACKAGE = "torch.optim.swa_utils."
_MEANS = (f"{_PACKAGE}get_swa_avg_fn", f"{_PACKAGE}get_swa_multi_avg_fn")
_DECAYING = (f"{_PACKAGE}get_ema_avg_fn", f"{_PACKAGE}get_ema_multi_avg_fn")

_OTHER_STATISTICS = {f"torch.nn.InstanceNorm{axes}d" for axes in (1, 2, 3)}  # which update_bn leaves as they are


class Averaging(Arguments, StateAccess):
    """Models that average the weights of another one."""

    def torch_optim_swa_utils_AveragedModel(self, node: cst.Call) -> Value:
        """A copy, with the number of updates that it has taken; what an update weighs is remembered."""
        weighed = [arg for arg in node.args if _is_keyword(arg, "avg_fn", "multi_avg_fn")]
        others = [arg for arg in node.args if arg not in weighed]
        call = self.bind_call(f"{_PACKAGE}AveragedModel", signature(_AVERAGED), others)
        call.only("avg_fn", None)
        call.only("use_buffers", False, True)
        kind = call.kind("model")
        if not isinstance(kind, Model) or kind.place is None:
            raise Unsupported("MIG302", f"{call.api} of {nodes.code(call.node('model'))}, which is no known model")
        buffers = nodes.is_literal(call.node("use_buffers"), True)
        if buffers and any(counts_batches(leaf.torch) for leaf in weights_of(self.script, kind.cls)):
            raise Unsupported("MIG302", f"{call.api} of {kind.place.name}, whose numbers of batches would be averaged")
        weighs = self.weighing(weighed[0].value if weighed else None)
        self.script.averaging[self.pending_place] = Averaged(weighs, buffers)
        mode = self.env.modes.get(kind.place, "train")
        return Value(call.node("model"), Model(kind.cls, None, kind.place, mode))

    def weighing(self, written: Expr | None) -> str:
        """How much an update counts after the first one, which is a copy: `{n}` is the number of those before it."""
        written = self.as_lambda(written) if isinstance(written, cst.Name) else written
        if written is None or nodes.is_literal(written, None):
            return "1 / ({n} + 1)"
        if isinstance(written, cst.Lambda):
            weight = _weight_of_new(written)
            if weight is None:
                raise Unsupported("MIG302", f"AveragedModel with `{nodes.code(written)}`, which is no plain average")
            return f"{nodes.code(nodes.parenthesized(self.node(weight)))} if {{n}} else 1"
        name = self.torch_name(written.func) if isinstance(written, cst.Call) else None
        if name in _MEANS:
            return "1 / ({n} + 1)"
        if name not in _DECAYING or not isinstance(written, cst.Call) or len(written.args) > 1:
            raise Unsupported("MIG302", f"AveragedModel with {nodes.code(written)}")
        decay = self.node(written.args[0].value) if written.args else cst.Float("0.999")
        value = nodes.literal(decay)
        rest = f"{1 - value:.12g}" if isinstance(value, float) else f"1 - {nodes.code(nodes.parenthesized(decay))}"
        return f"{rest} if {{n}} else 1"

    def as_lambda(self, name: cst.Name) -> Expr:
        """What a name stands for: of a function that only returns something, that as a lambda."""
        kind = self.kind_of(name)
        body = suites.suite_of(self.script.functions[kind.name].node.body.body) if isinstance(kind, Function) else []
        body = [statement for statement in body if not suites.is_docstring(statement)]
        returned = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else None
        if isinstance(kind, Function) and isinstance(returned, cst.Return) and returned.value is not None:
            return cst.Lambda(self.script.functions[kind.name].node.params, returned.value)
        return self.env.definitions.get(name.value, name)

    def keeps_no_statistics(self, node: cst.Call) -> bool:
        """Whether `update_bn(loader, model)` has nothing to do: the model has no batch norm."""
        kind = self.kind_of(node.args[1].value) if len(node.args) > 1 else None
        return isinstance(kind, Model) and not self.stats_of(kind)

    def update_bn(self, node: cst.Call) -> list[Statement]:
        """`update_bn(loader, model)`: the statistics of its batch norms are the means of those of all batches."""
        call = self.bind_call(f"{_PACKAGE}update_bn", signature("loader, model, device=None"), node.args)
        kind, model = call.kind("model"), nodes.code(call.node("model"))
        if not isinstance(kind, Model) or kind.place is None:
            raise Unsupported("MIG302", f"{call.api} of {model}, which is no known model")
        leaves = [leaf.torch for leaf in weights_of(self.script, kind.cls) if not leaf.flax.startswith(PARAMS)]
        others = {layer.torch for layer in self.script.layers_inside(kind.cls)} & _OTHER_STATISTICS
        if others or not all(leaf.endswith((".running_mean", ".running_var")) for leaf in leaves):
            raise Unsupported("MIG302", f"{call.api} of {model}, which keeps more than statistics of batch norms")
        if self.script.draws(kind.cls):
            raise Unsupported("MIG302", f"{call.api} of {model}, which draws in train mode")
        momenta = [each for unit in self.unit.others.values() for each in _other_momenta(unit.source.module)]
        if momenta:
            told = f"whose batch norms may have momentum={nodes.code(momenta[0])}"
            raise Unsupported("MIG302", f"{call.api} of {model}, {told}")
        self.unit.use_snippet("mean_batch_stats")
        trained = copy_of(self, call.node("model"), kind.cls, {"training": nodes.name("True")})
        stats = State(BATCH_STATS, kind.place)
        given = [call.node("loader"), trained, self.read(State(PARAMS, kind.place)), self.read(stats)]
        return [nodes.statement("{s} = {made}", s=self.write(stats), made=nodes.call("mean_batch_stats", *given))]

    def update_average(self, node: cst.Call, kind: Model) -> list[Statement]:
        """`average.update_parameters(model)`: the first update is a copy; buffers are copied, or averaged as well."""
        place, source = kind.place, self.kind_of(node.args[0].value) if len(node.args) == 1 else None
        if place is None or not isinstance(source, Model) or source.place is None:
            raise Unsupported("MIG302", f"{nodes.code(node)}: what is averaged is no known model")
        params, count = State(PARAMS, place), State(COUNT, place)
        number = self.read(count)
        averaged = self.script.averaging[self.root(place)]
        weighing = nodes.expression(averaged.weighs, n=number)
        new, old = self.read(State(PARAMS, source.place)), self.read(params)
        mixed = nodes.call("optax.incremental_update", new, old, weighing)
        made: list[Statement] = [nodes.statement("{p} = {mixed}", p=self.write(params), mixed=mixed)]
        if self.stats_of(kind):
            stats, given = self.write(State(BATCH_STATS, place)), self.read(State(BATCH_STATS, source.place))
            copied = nodes.call("jax.tree.map", nodes.expression("jnp.copy"), given)
            mixed = nodes.call("optax.incremental_update", given, stats, weighing) if averaged.buffers else copied
            made.append(nodes.statement("{s} = {mixed}", s=stats, mixed=mixed))
        return [*made, nodes.statement("{n} += 1", n=self.write(count))]


def _other_momenta(module: cst.Module) -> Iterator[Expr]:
    """What batches weigh in the running statistics of a file's layers, where that is not torch's default."""
    for call in every(module, cst.Call):
        layer = (nodes.dotted(call.func) or "").rpartition(".")[2]
        third = call.args[2:3] if "BatchNorm" in layer and not any(arg.keyword for arg in call.args[:3]) else []
        told = [*third, *(arg for arg in call.args if _is_keyword(arg, "momentum"))]
        if layer not in ("SGD", "RMSprop"):
            yield from (arg.value for arg in told if not nodes.is_literal(arg.value, 0.1))


def _weight_of_new(function: cst.Lambda) -> Expr | None:
    """What the new weights count in `lambda old, new, n: a * old + b * new`; None where it is no such sum."""
    names = [parameter.name.value for parameter in function.params.params]
    total = function.body
    if len(names) != 3 or not isinstance(total, cst.BinaryOperation) or not isinstance(total.operator, cst.Add):
        return None
    factors: dict[str, Expr] = {}
    for side in (total.left, total.right):
        if not isinstance(side, cst.BinaryOperation) or not isinstance(side.operator, cst.Multiply):
            return None
        for one, other in ((side.left, side.right), (side.right, side.left)):
            if isinstance(one, cst.Name) and one.value in names[:2] and not set(usage.loads(other)) & set(names):
                factors[one.value] = other
    old, new = (factors.get(name) for name in names[:2])
    if old is None or new is None:
        return None
    values = [nodes.literal(factor) for factor in (old, new)]
    both = [value for value in values if isinstance(value, int | float)]
    rest = {nodes.code(nodes.expression("1 - {x}", x=old)), nodes.code(nodes.expression("1.0 - {x}", x=old))}
    adds_up = len(both) == 2 and abs(sum(both) - 1) < 1e-12
    return new if adds_up or nodes.code(nodes.bare(new)) in rest else None


def _is_keyword(arg: cst.Arg, *names: str) -> bool:
    return arg.keyword is not None and arg.keyword.value in names
