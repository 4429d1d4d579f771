"""Passes of models on the host, each as a jitted function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.known.kinds import Items, Kind, Model, Tensor
from migrate.known.qualified import options
from migrate.known.states import BATCH_STATS, MODE, PARAMS, State
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.models.models_in_steps import ModelsInSteps
from migrate.lowering.models.precision import Precision
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement

Streams = Sequence[tuple[str, Expr]]  # random streams, each with its key


class JittedPasses(Precision, ModelsInSteps):
    """Functions for the passes of a model, and its methods, that take arrays alone."""

    def applied(self, node: Expr, kind: Model, mode: str) -> Expr:
        """The model as it is applied: a copy in its mode, and in the precision in force."""
        assert kind.place is not None
        changes: dict[str, Expr] = {} if mode == "eval" else {"training": self.read(State(MODE, kind.place))}
        if self.precision is not None:
            self.lowered_class(kind.cls)
            changes["dtype"] = self.precision
            if self.region is not None:
                self.region.constants |= self.constants_of_precision()
        return copy_of(self, node, kind.cls, changes)

    def shares(self, model: Model) -> bool:
        """Whether functions reach a model by its name; else it is a static argument of jit, which hashes it."""
        assert model.place is not None
        if self.is_global(model.place):
            return True
        self.script.hashed.update(options(model.cls))
        return False

    def _by_position(self, kind: Model, args: Sequence[cst.Arg], method: str) -> Sequence[cst.Arg]:
        """Arguments by position where they are given by name in the order in which each class takes them."""
        names = [facts.parameter_names[1:] for facts in self.methods_of(kind.cls, method)]
        plain = [arg.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT) for arg in args]
        in_order = all(argument_names(args, own) == own[: len(args)] for own in names)
        return plain if names and in_order and not any(arg.star for arg in args) else args

    def jitted_pass(
        self,
        node: Expr,
        kind: Model,
        mode: str,
        streams: Streams,
        args: Sequence[cst.Arg],
        method: str = "",
    ) -> cst.Call:
        """A call of the jitted pass of a model, or of a method of it; it also returns the batch statistics that it
        changes."""
        assert kind.place is not None
        args = self._by_position(kind, args, method or "forward")
        changed = self.precision is not None or mode == "told"
        shared = not changed and self.shares(kind)
        if changed:
            self.script.hashed.update(options(kind.cls))
            node = self.applied(node, kind, mode if mode == "told" else "eval")
        model = kind.place.name if shared else "model"
        applied = nodes.code(copy_of(self, nodes.name(model), kind.cls, _mode_given(mode)))
        wanted = method or ("eval_step" if mode == "eval" else "forward_pass")
        if shared and len({found.name for found in self.script.places}) > 1:
            wanted = f"{model}_{wanted}" if method else f"{wanted}_{model}"
        decorator = "@jax.jit" if shared else '@jax.jit(static_argnames="model")'
        collections = [PARAMS, *([BATCH_STATS] if self.stats_of(kind) else [])]
        variables = "{" + ", ".join(f'"{name}": {name}' for name in collections) + "}"
        drawing = _Drawing(streams)
        leading = ", ".join([*([] if shared else ["model"]), *collections, *drawing.parameter])
        inputs = "*inputs, **named" if any(arg.keyword for arg in args) else "*inputs"
        given = inputs + (f', method="{method}"' if method else "") + drawing.keyword
        body = f"    return {applied}.apply({variables}, {given})\n"
        if self.script.changes_state(kind.cls, mode):
            body = (
                f"    variables = {variables}\n"
                f'    output, mutated = {applied}.apply(variables, {given}, mutable=["batch_stats"])\n'
                f'    return output, mutated["batch_stats"]\n'
            )

        def make(name: str) -> list[Statement]:
            return list(cst.parse_module(f"{decorator}\ndef {name}({leading}, {inputs}):\n{body}").body)

        name = self.unit.helper(wanted, make, f"{decorator} {leading} {body}")
        states = [self.read(State(what, kind.place)) for what in collections]
        before = nodes.arguments([*([] if shared else [node]), *states, *drawing.given])
        return cst.Call(nodes.name(name), [*before, *args])


@dataclass(frozen=True)
class _Drawing:
    """How a jitted forward pass is given the keys of its random streams: one as `key`, several in a dict."""

    streams: Streams

    @property
    def parameter(self) -> list[str]:
        return [("key" if len(self.streams) == 1 else "rngs")] if self.streams else []

    @property
    def keyword(self) -> str:
        if len(self.streams) != 1:
            return ", rngs=rngs" if self.streams else ""
        return f', rngs={{"{self.streams[0][0]}": key}}'

    @property
    def given(self) -> list[Expr]:
        if len(self.streams) == 1:
            return [self.streams[0][1]]
        return [nodes.dict_of(self.streams)] if self.streams else []


def copy_of(scope: Scope, node: Expr, cls: str, settings: Mapping[str, Expr]) -> Expr:
    """A copy of a model with other settings. What its classes make follows its mode; parts are told theirs."""
    inside = scope.script.with_submodules(cls)
    others = dict(settings)
    if "training" in others and any(scope.script.classes[name].holds_parts for name in inside):
        scope.unit.use_snippet("in_mode")
        node = nodes.call("in_mode", node, others.pop("training"))
    return nodes.call(cst.Attribute(node, cst.Name("clone")), **others) if others else node


def is_traced(value: Value) -> bool:
    """Whether jit takes an argument as it is: arrays, and None."""
    return _are_arrays(value.kind) or nodes.is_literal(value.node, None)


def _are_arrays(kind: Kind) -> bool:
    """Whether jit takes a value as it is: a tensor, or a tuple of tensors such as the state of an LSTM."""
    if isinstance(kind, Items) and kind.type == "tuple" and kind.items:
        return all(_are_arrays(item) for item in kind.items)
    return isinstance(kind, Tensor)


def _mode_given(mode: str) -> dict[str, Expr]:
    """What is set of a model that is applied in a mode."""
    return {"training": nodes.name("True")} if mode == "train" else {}
