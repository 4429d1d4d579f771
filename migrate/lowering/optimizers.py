"""Optimizers: their optax forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import Items, Number, Optimizer, Place, Scheduler, Tensor
from migrate.layers.moves import Permute
from migrate.lowering.labels import FROZEN
from migrate.lowering.parameter_groups import Grouped, ParameterGroups
from migrate.lowering.schedules import Schedules, follow_rate, rate_in_state, refuse_mixed
from migrate.lowering.scope import NOWHERE
from migrate.nodes import Expr
from migrate.optimizers import AS_IN_TORCH, OPTIMIZERS, TURNED, OptimizerEntry
from migrate.rules.rule import Call, Value, signature
from migrate.states import COUNT, OPT_STATE, State
from migrate.weight_kinds import OptimizerGroups, OwnOptimizer, StateDict

# Hyperparameters that change while a script trains, as optax calls them: what they are part of in torch.
_INJECTED = {"learning_rate": "lr", "b1": "betas"}


@dataclass(frozen=True)
class MadeOptimizer:
    """An optimizer in optax: what makes it, its learning rate, the models that it trains, and the hyperparameters that
    change while it trains, with their values at first: its expression has names in their places."""

    node: Expr
    rate: Expr
    models: tuple[Place, ...]
    injected: Mapping[str, Expr]


class Optimizers(Schedules, ParameterGroups):
    """Constructors and methods of optimizers."""

    def optimizer(self, name: str, node: cst.Call) -> Value:
        """A torch optimizer: its optax form. The place is filled in where it is assigned."""
        made = self.optimizer_made(name, node)
        return self.with_rates(made.node, [made])

    def of_own_class(self, node: cst.Call) -> Value | None:
        """An optimizer of a class of the user's own; None for other calls."""
        kind = self.kind_of(node.func)
        if not isinstance(kind, OwnOptimizer):
            return None
        entry = self.script.own_optimizers[kind.cls]
        entry = replace(entry, template=nodes.code(node.func) + entry.template.removeprefix(entry.torch))
        made = self.optimizer_of_entry(entry, node)
        if made.injected:
            changing = {_INJECTED.get(name, name) for name in made.injected}
            self.script.injecting[kind.cls] = self.script.injecting.get(kind.cls, frozenset()) | changing
        return self.with_rates(made.node, [made])

    def with_rates(self, node: Expr, options: Sequence[MadeOptimizer]) -> Value:
        """An optimizer, or one of several `options`, with the hyperparameters that change."""
        first = options[0]
        self.rates[self.pending_place] = first.rate
        if any(nodes.code(one.rate) != nodes.code(first.rate) for one in options):
            self.rates.pop(self.pending_place)  # each has its own unless it is given one
        if any(set(one.injected) != set(first.injected) for one in options):
            raise Unsupported("MIG302", "optimizers to choose from of which only some have a momentum that changes")
        if first.injected:
            if any(
                nodes.code(one.injected[name]) != nodes.code(first.injected[name])
                for one in options
                for name in one.injected
            ):
                raise Unsupported("MIG302", "optimizers to choose from whose rates differ, and change")
            inner = nodes.expression(f"lambda {', '.join(first.injected)}: {{made}}", made=node)
            node = nodes.call(nodes.expression("optax.inject_hyperparams({inner})", inner=inner), **first.injected)
        return Value(node, Optimizer(NOWHERE, first.models))

    def optimizer_made(self, name: str, node: cst.Call) -> MadeOptimizer:
        """A torch optimizer in optax."""
        entry = OPTIMIZERS.get(name)
        if entry is None:
            raise Unsupported("MIG301", name)
        return self.optimizer_of_entry(entry, node)

    def optimizer_of_entry(self, entry: OptimizerEntry, node: cst.Call) -> MadeOptimizer:
        """What a call of an optimizer class makes."""
        name = entry.torch
        source, rest = _parameters(name, node)
        call = self.bind_call(name, signature(entry.signature.partition(", ")[2]), rest)
        for flag in entry.flags:
            call.only(flag, True, False, None)
        decay = nodes.literal(call.node("weight_decay")) if "weight_decay" in call.defaults else 0
        grouped = self.grouped(name, source, decays=decay != 0 or (bool(entry.options) and not entry.fills))
        if entry.ordered:
            self.note_axes(entry, grouped)
        if entry.spoils:
            self.script.spoiling.add(self.pending_place)
        if entry.fills and any(self.script.frozen_last.get(self.root(place)) for place in grouped.models):
            raise Unsupported("MIG302", f"{name} takes zeros for the gradients of weights that are frozen")
        self.script.momenta[self.pending_place] = _momentum(call)
        if entry.evaluates:
            call.only("line_search_fn", None, "strong_wolfe")
            self.script.evaluating.add(self.pending_place)
            if self.pending_place in self.script.scheduled:
                raise Unsupported("MIG302", f"{name} with a learning rate that changes")
        if entry.counts:
            self.script.counting.add(self.pending_place)
        if len(grouped.options) > 1:
            self.script.several.add(self.pending_place)
        scheduled = self.pending_place in self.script.scheduled
        rate = call.node("lr")
        injected = self.injected(call) if scheduled else {}
        made = self.transformation(entry, call, grouped, rate if scheduled else None)
        return MadeOptimizer(made, rate, grouped.models, injected)

    def note_axes(self, entry: OptimizerEntry, grouped: Grouped) -> None:
        """Notes how the axes of what an optimizer trains are, to whose step that matters: all must be alike."""
        known = self.script.optimizer_axes.setdefault(entry.ordered, set())
        matrices = [leaf for leaf in grouped.trained if leaf.shape is None or len(leaf.shape) > 1]
        if not matrices:
            known.add(AS_IN_TORCH)
        for leaf in matrices:
            if leaf.moves not in ((), (Permute((1, 0)),)):
                raise Unsupported(
                    "MIG302", f"{entry.torch} works on the axes of {leaf.torch}, which Flax has otherwise"
                )
            known.add(TURNED if leaf.moves else AS_IN_TORCH)
        if len(known) > 1:
            raise Unsupported("MIG302", f"{entry.torch} works on the axes of weights, which are in several orders here")

    def transformation(self, entry: OptimizerEntry, call: Call, grouped: Grouped, rate: Expr | None) -> Expr:
        """What updates the parameters: one optimizer, or one for each group of them. `rate`: that of the whole, where
        it changes while it trains."""
        if grouped.labels is None:
            (options,) = grouped.options.values()
            own = self.of_group(entry, call, options, rate)
            return self.decayed(entry, own, self.filled(entry, own, rate is not None))
        masked = self.decay_masked(entry, call, grouped, rate)
        if masked is not None:
            return masked
        made: list[tuple[str, Expr]] = []
        for label, options in grouped.options.items():
            if label == FROZEN:
                made.append((label, nodes.expression("optax.set_to_zero()")))
                continue
            own = self.of_group(entry, call, options, rate)
            made.append((label, self.decayed(entry, own, self.filled(entry, own, rate is not None))))
        return nodes.call("optax.multi_transform", nodes.dict_of(made), grouped.labels)

    def decay_masked(self, entry: OptimizerEntry, call: Call, grouped: Grouped, rate: Expr | None) -> Expr | None:
        """One optimizer for two groups of which one has no weight decay, and that differ in nothing else."""
        if (
            entry.decay != "own"
            or entry.options
            or any(set(options) - {"weight_decay"} for options in grouped.options.values())
        ):
            return None
        calls = {name: self.of_group(entry, call, options, rate) for name, options in grouped.options.items()}
        without = [name for name, own in calls.items() if nodes.literal(own.node("weight_decay")) == 0]
        if len(without) != 1 or not grouped.masks:
            return None
        (decayed,) = set(calls) - set(without)
        made = self.filled(entry, calls[decayed], rate is not None)
        if not isinstance(made, cst.Call) or nodes.dotted(made.func) != "optax.adamw":
            return None
        made = made.with_changes(args=nodes.extended(made.args, {"mask": grouped.masks[decayed]}))
        return self.decayed(entry, calls[decayed], made)

    def of_group(self, entry: OptimizerEntry, call: Call, options: Mapping[str, Expr], rate: Expr | None) -> Call:
        """The arguments of an optimizer for one of its groups."""
        bound = dict(call.bound)
        for key, written in options.items():
            if (key not in call.defaults and key != "lr") or (entry.options and key not in entry.options):
                raise Unsupported("MIG302", f"{entry.torch}: {key} of a parameter group")
            value = self.expr(written)
            if key == "lr" and rate is not None:
                if nodes.code(value.node) == nodes.code(rate):
                    continue
                if not self.script.proportional.get(self.pending_place, False):
                    raise Unsupported("MIG302", f"{entry.torch}: rates of groups that do not change in proportion")
                text = "learning_rate * ({own} / {rate})"
                value = Value(nodes.expression(text, own=value.node, rate=rate), Number())
            bound[key] = value
        return replace(call, bound=bound)

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
            if not call.has(argument) or any(nodes.is_literal(call.node(argument), none) for none in (0, None)):
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
        if "maximize" in call.defaults and nodes.is_literal(call.node("maximize"), True):
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
        refuse_mixed(kind)
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
            if self.root(kind.optimizer) in self.script.several:
                raise Unsupported("MIG401", f"{nodes.code(node)}: one of several parameter groups")
            return Value(node, OptimizerGroups(kind.optimizer, one=True))
        follow_rate(self, node, kind)
        rate = rate_in_state(self, kind.optimizer)
        if self.under_jit:
            return Value(rate, Tensor("float", 0))
        return Value(nodes.expression("{rate}.item()", rate=rate), Number())


def _parameters(torch: str, node: cst.Call) -> tuple[Expr, list[cst.Arg]]:
    """What an optimizer is to train, and its other arguments."""
    for number, arg in enumerate(node.args):
        if (arg.keyword is None and number == 0 and not arg.star) or (arg.keyword and arg.keyword.value == "params"):
            return arg.value, [other for other in node.args if other is not arg]
    raise Unsupported("MIG302", f"{torch} without parameters")


def _momentum(call: Call) -> str:
    """The hyperparameter that torch's cyclic schedules change beside the rate; "" where there is none."""
    if "betas" in call.defaults:
        return "b1"
    return "momentum" if "momentum" in call.defaults and call.has("momentum") else ""
