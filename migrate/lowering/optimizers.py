"""Optimizers and schedules: their optax forms."""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    Items,
    Number,
    Optimizer,
    Parameters,
    Scheduler,
    StateDict,
)
from migrate.lowering.arguments import Arguments
from migrate.lowering.parameter_groups import ParameterGroups
from migrate.lowering.scope import NOWHERE
from migrate.nodes import Expr
from migrate.optimizers import OPTIMIZERS, SCHEDULES, STARTING
from migrate.rules.rule import Parameter, Value, signature
from migrate.script import (
    COUNT,
    OPT_STATE,
    State,
)
from migrate.targets import linen


class Optimizers(ParameterGroups, Arguments):
    """Constructors of optimizers and schedulers."""

    def optimizer(self, name: str, node: cst.Call) -> Value:
        """A torch optimizer or scheduler: its optax form. The place is filled in where it is assigned."""
        if name in SCHEDULES:
            return self.scheduler(name, node)
        entry = OPTIMIZERS.get(name)
        if entry is None:
            raise Unsupported("MIG301", name)
        with self.naming_parameters():
            call = self.bind_call(name, signature(entry.signature), node.args)
        for refused in entry.refuses:
            call.only(refused, *([0, 0.0, False, None] if refused != "eps" else [1e-10]))
        target = call.kind("params")
        groups = call.node("params")
        mask: Expr | None = None
        if isinstance(target, Parameters):
            models = target.models
        elif isinstance(groups, cst.List) and isinstance(target, Items):
            models, mask, decay = self.parameter_groups(entry, groups)
            call.bound = {**call.bound, "weight_decay": decay}
        else:
            raise Unsupported("MIG302", f"{name}: parameters other than model.parameters()")
        scheduled = self.pending_place in self.script.scheduled
        rate = call.node("lr")
        if scheduled and name == "torch.optim.RMSprop" and call.has("momentum"):
            raise Unsupported(
                "MIG302", f"{name}: momentum with a changing learning rate, which optax applies in another order"
            )
        if scheduled:
            call.bound = {**call.bound, "lr": Value(nodes.name("learning_rate"), Number())}
        made = linen.fill(entry.template, call)
        if mask is not None:
            assert isinstance(made, cst.Call)
            made = made.with_changes(args=[*made.args, *nodes.arguments([], {"mask": mask})])
        if (
            entry.decay == "coupled"
            and call.has("weight_decay")
            and not nodes.is_literal(call.node("weight_decay"), 0.0)
        ):
            decayed = nodes.call("optax.add_decayed_weights", call.node("weight_decay"))
            made = nodes.call("optax.chain", decayed, made)
        if scheduled:
            inner = nodes.expression("lambda learning_rate: {made}", made=made)
            made = nodes.expression("optax.inject_hyperparams({inner})(learning_rate={rate})", inner=inner, rate=rate)
        self.rates[self.pending_place] = rate
        return Value(made, Optimizer(NOWHERE, models))

    def scheduler(self, name: str, node: cst.Call) -> Value:
        text, template = SCHEDULES[name]
        parameters: tuple[Parameter, ...] = signature("optimizer, " + text)
        call = self.bind_call(name, parameters, node.args)
        call.only("last_epoch", -1)
        kind = call.kind("optimizer")
        if not isinstance(kind, Optimizer):
            raise Unsupported("MIG302", f"{name} of {nodes.code(call.node('optimizer'))}, which is no known optimizer")
        self.script.scheduled.add(self.root(kind.place))
        rate = self.rates.get(self.root(kind.place))
        if rate is None:
            raise Unsupported("MIG302", f"{name}: the learning rate of {kind.place.name} is not known here")
        made = call.make(template, lr=rate)
        return Value(made, Scheduler(NOWHERE, kind.place, name in STARTING))

    def optimizer_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of an optimizer or scheduler inside an expression."""
        kind, method = base.kind, func.attr.value
        if isinstance(kind, Scheduler) and method == "get_last_lr":
            steps = self.read(State(COUNT, kind.place))
            return Value(nodes.expression("[{s}({n})]", s=base.node, n=steps), Items((Number(),)))
        if isinstance(kind, Optimizer) and method == "state_dict":
            return Value(self.read(State(OPT_STATE, kind.place)), StateDict(kind.place))
        if isinstance(kind, Scheduler) and method == "state_dict":
            return Value(self.read(State(COUNT, kind.place)), StateDict(kind.place))
        raise Unsupported(
            "MIG401", f"{func.value.value if isinstance(func.value, cst.Name) else 'optimizer'}.{method}() here"
        )
