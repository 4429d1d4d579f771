"""Optimizers: their optax forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import UNKNOWN, Items, Kind, Model, Number, Optimizer, Place, Plain, Scheduler
from migrate.known.saved import OptaxChain
from migrate.known.states import COUNT, OPT_STATE, State
from migrate.known.weight_kinds import LISTING, OwnOptimizer, OwnScheduler, StateDict
from migrate.layers.moves import Permute
from migrate.lowering.optimizers.group_arguments import GroupArguments
from migrate.lowering.optimizers.labels import FROZEN
from migrate.lowering.optimizers.own_schedulers import OwnSchedules
from migrate.lowering.optimizers.parameter_groups import Grouped
from migrate.lowering.optimizers.schedules import refuse_mixed
from migrate.lowering.scope import NOWHERE
from migrate.optimizers import AS_IN_TORCH, OPTIMIZERS, TURNED, OptimizerEntry
from migrate.rules.rule import Call, Value, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

# Attributes of a scheduler that follows a metric, as the snippet calls them.
_OF_PLATEAU = {"best": "best", "num_bad_epochs": "bad_epochs", "factor": "factor", "patience": "patience"}


@dataclass(frozen=True)
class MadeOptimizer:
    """An optimizer in optax: what makes it, its learning rate, the models that it trains, and the hyperparameters that
    change while it trains, with their values at first: its expression has names in their places."""

    node: Expr
    rate: Expr
    models: tuple[Place, ...]
    injected: Mapping[str, Expr]
    changing: frozenset[str]  # what these are called in torch


class Optimizers(GroupArguments, OwnSchedules):
    """Constructors and methods of optimizers."""

    def optimizer(self, name: str, node: cst.Call) -> Value:
        """A torch optimizer: its optax form. The place is filled in where it is assigned."""
        made = self.optimizer_made(name, node)
        return self.noted(name, node, self.with_rates(made.node, [made]))

    def noted(self, name: str, node: cst.Call, made: Value) -> Value:
        """An optimizer, noted for the files that its state is saved to."""
        source, _ = _parameters(name, node)
        found = OptaxChain(name, nodes.code(made.node), self.are_all(source))
        self.script.chains.setdefault(self.root(self.pending_place), {})[found] = None
        return made

    def are_all(self, source: Expr) -> bool:
        """Whether an expression is `model.parameters()`, or a name or a list of that."""
        if isinstance(source, cst.Name):
            source = self.env.definitions.get(source.value, source)
        if isinstance(source, cst.Call) and nodes.dotted(source.func) == "list" and len(source.args) == 1:
            return self.are_all(source.args[0].value)
        if not isinstance(source, cst.Call) or source.args or not isinstance(source.func, cst.Attribute):
            return False
        return source.func.attr.value in LISTING and isinstance(self.kind_of(source.func.value), Model)

    def of_own_class(self, node: cst.Call) -> Value | None:
        """An optimizer of a class of the user's own; None for other calls."""
        kind = self.kind_of(node.func)
        if isinstance(kind, OwnScheduler):
            return self.schedule_of_own(node, kind)
        if not isinstance(kind, OwnOptimizer):
            return None
        entry = self.script.own_optimizers[kind.cls]
        entry = replace(entry, template=nodes.code(node.func) + entry.template.removeprefix(entry.torch))
        made = self.optimizer_of_entry(entry, node)
        if made.changing:
            self.script.injecting[kind.cls] = self.script.injecting.get(kind.cls, frozenset()) | made.changing
        return self.noted(entry.torch, node, self.with_rates(made.node, [made]))

    def with_rates(self, node: Expr, options: Sequence[MadeOptimizer]) -> Value:
        """An optimizer, or one of several `options`, with the hyperparameters that change."""
        first = options[0]
        self.rates[self.pending_place] = first.rate
        self.script.rate_scopes[self.pending_place] = self.scope
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
        if entry.fills and any(self.script.frozen.any_of(self.root(place)) for place in grouped.models):
            raise Unsupported("MIG302", f"{name} takes zeros for the gradients of weights that are frozen")
        if entry.evaluates and grouped.switched:
            raise Unsupported("MIG302", f"{name} of weights that are frozen as the script runs")
        self.script.momenta[self.pending_place] = _momentum(call)
        if entry.evaluates:
            call.only("line_search_fn", None, "strong_wolfe")
            self.script.evaluating.add(self.pending_place)
            if self.pending_place in self.script.scheduled:
                raise Unsupported("MIG302", f"{name} with a learning rate that changes")
        if entry.counts:
            self.script.counting.add(self.pending_place)
        written = grouped
        call, grouped = self.of_one_group(entry, call, self.known_to_torch(entry, call, grouped))
        self.note_groups(call, grouped, written)
        rate = call.node("lr")
        injected = self.injected(call, grouped)
        made = self.transformation(entry, call, grouped, rate if "lr" in injected.changing else None)
        return MadeOptimizer(made, rate, grouped.models, injected.first, injected.changing)

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
            own = self.of_group(entry, call, options, "", rate)
            return self.unless_frozen(grouped, "", self.decayed(entry, own, self.filled(entry, own, rate is not None)))
        masked = self.decay_masked(entry, call, grouped, rate)
        if masked is not None:
            return masked
        made: list[tuple[str, Expr]] = []
        for label, options in grouped.options.items():
            if label == FROZEN:
                made.append((label, nodes.expression("optax.set_to_zero()")))
                continue
            own = self.of_group(entry, call, options, grouped.switched.get(label, (label, ""))[0], rate)
            each = self.decayed(entry, own, self.filled(entry, own, rate is not None))
            made.append((label, self.unless_frozen(grouped, label, each)))
        return nodes.call("optax.multi_transform", nodes.dict_of(made), grouped.labels)

    def unless_frozen(self, grouped: Grouped, label: str, made: Expr) -> Expr:
        """What updates the parameters of one label, which may be those of a part that is frozen while it trains."""
        if label not in grouped.switched:
            return made
        self.unit.use_snippet("unless_frozen")
        return nodes.call("unless_frozen", cst.SimpleString(f'"{grouped.switched[label][1]}"'), made)

    def decay_masked(self, entry: OptimizerEntry, call: Call, grouped: Grouped, rate: Expr | None) -> Expr | None:
        """One optimizer for two groups of which one has no weight decay, and that differ in nothing else."""
        if (
            entry.decay != "own"
            or entry.options
            or any(set(options) - {"weight_decay"} for options in grouped.options.values())
        ):
            return None
        calls = {name: self.of_group(entry, call, options, name, rate) for name, options in grouped.options.items()}
        without = [name for name, own in calls.items() if nodes.literal(own.node("weight_decay")) == 0]
        if len(without) != 1 or not grouped.masks:
            return None
        (decayed,) = set(calls) - set(without)
        made = self.filled(entry, calls[decayed], rate is not None)
        if not isinstance(made, cst.Call) or nodes.dotted(made.func) != "optax.adamw":
            return None
        made = made.with_changes(args=nodes.extended(made.args, {"mask": grouped.masks[decayed]}))
        return self.decayed(entry, calls[decayed], made)

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

    def optimizer_attribute(self, node: cst.Attribute, base: Value) -> Value:
        """What a script reads of an optimizer or a scheduler: how often that was stepped, the rates it starts from."""
        kind, attribute = base.kind, node.attr.value
        if isinstance(kind, Scheduler) and kind.own and attribute != "optimizer":
            return Value(node.with_changes(value=base.node), UNKNOWN)
        if isinstance(kind, Scheduler) and not kind.mixed and kind.place != NOWHERE:
            if attribute == "_last_lr":
                return self.last_rates(kind, base.node)
            first = self.rates.get(self.root(kind.optimizer))
            if attribute == "base_lrs" and isinstance(nodes.literal(first), int | float):
                rates = self.rates_of_groups(nodes.expression("{rate}", rate=first or node), kind.optimizer)
                return Value(cst.List([cst.Element(rate) for rate in rates]), Items(tuple(Number() for _ in rates)))
            if attribute == "optimizer":
                return Value(node, Optimizer(kind.optimizer))
            if kind.plateau and attribute in _OF_PLATEAU:
                return Value(nodes.expression(f"{{s}}.{_OF_PLATEAU[attribute]}", s=base.node), Number())
            if attribute in ("last_epoch", "_step_count") and not kind.plateau:
                count = self.read(State(COUNT, kind.place))
                return Value(count if attribute == "last_epoch" else nodes.expression("{n} + 1", n=count), Number())
        raise Unsupported("MIG401", f"{nodes.code(node)}: what torch keeps there is not followed")

    def last_rates(self, kind: Scheduler, node: Expr) -> Value:
        """`scheduler.get_last_lr()`: the rates of all parameter groups."""
        rates = self.rates_of_groups(self.present_rate(kind, node), kind.optimizer)
        return Value(cst.List([cst.Element(rate) for rate in rates]), Items(tuple(Number() for _ in rates)))

    def optimizer_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of an optimizer or scheduler inside an expression."""
        kind, method = base.kind, func.attr.value
        refuse_mixed(kind)
        if isinstance(kind, Scheduler) and kind.own:
            args = [arg.with_changes(value=self.node(arg.value)) for arg in node.args]
            listed: Kind = Items(None, Number()) if method in ("get_last_lr", "get_lr") else UNKNOWN
            return Value(node.with_changes(func=func.with_changes(value=base.node), args=args), listed)
        if isinstance(kind, Scheduler) and method in ("get_last_lr", "get_lr"):
            return self.last_rates(kind, base.node)
        if isinstance(kind, Optimizer) and method == "state_dict":
            return Value(self.read(State(OPT_STATE, kind.place)), StateDict(kind.place))
        if isinstance(kind, Scheduler) and kind.plateau and method == "state_dict":
            return Value(nodes.expression("vars({s}).copy()", s=base.node), Plain("dict"))
        if isinstance(kind, Scheduler) and method == "state_dict":
            return Value(self.read(State(COUNT, kind.place)), StateDict(kind.place))
        raise Unsupported(
            "MIG401", f"{func.value.value if isinstance(func.value, cst.Name) else 'optimizer'}.{method}() here"
        )


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
