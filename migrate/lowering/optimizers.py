"""Optimizers: their optax forms."""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import Items, Leaf, Number, Optimizer, OptimizerGroups, Parameters, Place, Scheduler, StateDict
from migrate.lowering.parameter_groups import ParameterGroups
from migrate.lowering.schedules import Schedules, follow_rate
from migrate.lowering.scope import NOWHERE
from migrate.nodes import Expr
from migrate.optimizers import OPTIMIZERS, OptimizerEntry
from migrate.rules.rule import Call, Value, signature
from migrate.script import (
    COUNT,
    OPT_STATE,
    State,
)


class Optimizers(ParameterGroups, Schedules):
    """Constructors and methods of optimizers."""

    def optimizer(self, name: str, node: cst.Call) -> Value:
        """A torch optimizer: its optax form. The place is filled in where it is assigned."""
        entry = OPTIMIZERS.get(name)
        if entry is None:
            raise Unsupported("MIG301", name)
        with self.naming_parameters():
            call = self.bind_call(name, signature(entry.signature), node.args)
        for flag in entry.flags:
            call.only(flag, True, False, None)
        models, mask = self.optimized(entry, call)
        self.script.momenta[self.pending_place] = _momentum(call)
        scheduled = self.pending_place in self.script.scheduled
        rate = call.node("lr")
        injected = self.injected(call) if scheduled else {}
        made = self.filled(entry, call, scheduled)
        if mask is not None:
            assert isinstance(made, cst.Call)
            made = made.with_changes(args=[*made.args, *nodes.arguments([], {"mask": mask})])
        made = self.decayed(entry, call, made)
        if injected:
            inner = nodes.expression(f"lambda {', '.join(injected)}: {{made}}", made=made)
            made = nodes.call(nodes.expression("optax.inject_hyperparams({inner})", inner=inner), **injected)
        self.rates[self.pending_place] = rate
        return Value(made, Optimizer(NOWHERE, models))

    def optimized(self, entry: OptimizerEntry, call: Call) -> tuple[tuple[Place, ...], Expr | None]:
        """The models that an optimizer trains, and the mask of its weight decay."""
        target, groups = call.kind("params"), call.node("params")
        if isinstance(target, Parameters):
            return target.models, None
        if isinstance(target, Leaf):
            raise Unsupported("MIG302", f"{entry.torch} of one tensor: torch takes a list")
        if isinstance(target, Items) and target.items and all(isinstance(kind, Leaf) for kind in target.items):
            return tuple(kind.place for kind in target.items if isinstance(kind, Leaf)), None
        if isinstance(groups, cst.List) and isinstance(target, Items):
            models, mask, decay = self.parameter_groups(entry, groups)
            call.bound = {**call.bound, "weight_decay": decay}
            return models, mask
        raise Unsupported("MIG302", f"{entry.torch}: parameters other than model.parameters()")

    def injected(self, call: Call) -> dict[str, Expr]:
        """The hyperparameters that change while it trains, by name: their values at first; the call then has names in
        their places."""
        found: dict[str, Expr] = {"learning_rate": call.node("lr")}
        call.bound = {**call.bound, "lr": Value(nodes.name("learning_rate"), Number())}
        cycled = self.script.cycled.get(self.pending_place)
        if cycled == "momentum":
            found["momentum"] = call.node("momentum")
            call.bound = {**call.bound, "momentum": Value(nodes.name("momentum"), Number())}
        elif cycled == "b1":
            betas = call.node("betas")
            if not isinstance(betas, cst.Tuple) or len(betas.elements) != 2:
                raise Unsupported("MIG302", f"{call.api}: betas={nodes.code(betas)} with a cycle of the momentum")
            found["b1"] = betas.elements[0].value
            both = nodes.tuple_of([nodes.name("b1"), betas.elements[1].value])
            call.bound = {**call.bound, "betas": Value(both, call.kind("betas"))}
        return found

    def filled(self, entry: OptimizerEntry, call: Call, scheduled: bool) -> Expr:
        """The optimizer's template, or the variant that its arguments ask for, filled."""
        text = entry.template
        for argument, variant in entry.variants:
            if not call.has(argument) or nodes.is_literal(call.node(argument), 0):
                continue
            if entry.torch == "torch.optim.RMSprop" and not scheduled:
                continue
            if argument in entry.flags and not nodes.is_literal(call.node(argument), True):
                continue
            text = variant
        if nodes.is_literal(call.node("centered"), True) if "centered" in call.defaults else False:
            text = text.replace("scale_by_rms", "scale_by_stddev")
        return self.template_filled(text, call)

    def decayed(self, entry: OptimizerEntry, call: Call, made: Expr) -> Expr:
        """The optimizer with the weight decay that goes through the gradient, and gradients turned round where it
        maximizes."""
        before: list[Expr] = []
        if nodes.is_literal(call.node("maximize"), True):
            before.append(nodes.expression("optax.scale(-1.0)"))
        decay = call.node("weight_decay") if "weight_decay" in call.defaults and call.has("weight_decay") else None
        if decay is None or nodes.is_literal(decay, 0.0) or nodes.is_literal(decay, 0) or entry.decay == "own":
            return nodes.call("optax.chain", *before, made) if before else made
        decayed = nodes.call("optax.add_decayed_weights", decay)
        if entry.decay == "chosen" and nodes.is_literal(call.node("decoupled_weight_decay"), True):
            assert isinstance(made, cst.Call)
            first, *rest = (arg.value for arg in made.args)
            return nodes.call("optax.chain", *before, first, decayed, *rest)
        return nodes.call("optax.chain", *before, decayed, made)

    def optimizer_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of an optimizer or scheduler inside an expression."""
        kind, method = base.kind, func.attr.value
        if isinstance(kind, Scheduler) and method in ("get_last_lr", "get_lr"):
            return Value(nodes.expression("[{rate}]", rate=self.present_rate(kind, base.node)), Items((Number(),)))
        if isinstance(kind, Optimizer) and method == "state_dict":
            return Value(self.read(State(OPT_STATE, kind.place)), StateDict(kind.place))
        if isinstance(kind, Scheduler) and method == "state_dict":
            return Value(self.read(State(COUNT, kind.place)), StateDict(kind.place))
        raise Unsupported(
            "MIG401", f"{func.value.value if isinstance(func.value, cst.Name) else 'optimizer'}.{method}() here"
        )

    def group_item(self, node: cst.Subscript, base: Value) -> Value:
        """`optimizer.param_groups[0]`, and `group["lr"]`: the rate as it is now."""
        kind = base.kind
        assert isinstance(kind, OptimizerGroups)
        if not kind.one:
            return Value(node, OptimizerGroups(kind.optimizer, one=True))
        follow_rate(self, node, kind)
        state = self.read(State(OPT_STATE, kind.optimizer))
        made = nodes.expression('optax.tree_utils.tree_get({state}, "learning_rate").item()', state=state)
        return Value(made, Number())


def _momentum(call: Call) -> str:
    """The hyperparameter that torch's cyclic schedules change beside the rate; "" where there is none."""
    if "betas" in call.defaults:
        return "b1"
    return "momentum" if "momentum" in call.defaults and call.has("momentum") else ""
