"""Gradients that accumulate: optimizers that step apart from `backward()`."""

from __future__ import annotations

import libcst as cst

from migrate import nodes, suites
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    Model,
    Optimizer,
    Parameters,
    Tensor,
)
from migrate.lowering.binding import Binding
from migrate.lowering.state import StateAccess
from migrate.lowering.step_function import jit_decorator
from migrate.nodes import Expr, Statement
from migrate.script import (
    GRADS,
    OPT_STATE,
    PARAMS,
    State,
)


class Accumulation(StateAccess, Binding):
    """Optimizer steps on accumulated gradients."""

    def accumulates(self, kind: Optimizer) -> bool:
        """Whether the optimizer steps apart from `backward()`."""
        return any(self.root(place) in self.script.accumulated for place in kind.models)

    def gradient_state(self, kind: Optimizer) -> tuple[State, State]:
        """The parameters of the optimizer's model, and their gradients, in this scope."""
        if len(kind.models) != 1:
            raise Unsupported("MIG401", "an optimizer of several models")
        root = self.root(kind.models[0])
        place = next(
            (
                found.place
                for name in [*self.env.kinds, *(self.env.outer.kinds if self.env.outer else {})]
                if isinstance(found := self.kind_of_name(name), Model)
                and found.place
                and self.root(found.place) == root
            ),
            root,
        )
        return State(PARAMS, place), State(GRADS, place)

    def zero_grad(self, kind: Optimizer) -> list[Statement]:
        """`optimizer.zero_grad()`: nothing, unless gradients are kept."""
        if not self.accumulates(kind):
            return []
        params, grads = self.gradient_state(kind)
        target = self.write(grads)
        if self.root(grads.place) not in self.script.summed:
            self.script.zeroed_first.add(self.root(grads.place))
        return [nodes.statement("{g} = jax.tree.map(jnp.zeros_like, {p})", g=target, p=self.read(params))]

    def clip_statement(self, node: cst.Call) -> list[Statement]:
        """`clip_grad_norm_(...)` apart from `backward()`: the next optimizer step does it."""
        self.pending_clip = self.node(node.args[1].value)
        return []

    def assigned_clip(self, target: Expr, node: cst.Call) -> list[Statement]:
        """`norm = clip_grad_norm_(...)` apart from `backward()`."""
        kind = self.expr(node.args[0].value).kind
        if not isinstance(kind, Parameters) or len(kind.models) != 1 or len(node.args) != 2:
            raise Unsupported("MIG302", f"{nodes.code(node)}: other gradients than those of one model")
        _, grads = self.gradient_state(Optimizer(kind.models[0], kind.models))
        self.unit.use_snippet("clip_grad_norm")
        value = self.write(grads)
        text = "{grads}, {norm} = clip_grad_norm({grads}, {limit})"
        self.bind(target, Tensor("float", 0))
        return [nodes.statement(text, grads=value, norm=target, limit=self.node(node.args[1].value))]

    def optimizer_step(self, node: cst.Call, kind: Optimizer) -> list[Statement]:
        """`optimizer.step()` apart from `backward()`: the accumulated gradients are applied."""
        if node.args:
            raise Unsupported("MIG401", "step(closure)")
        if not self.accumulates(kind):
            raise Unsupported("MIG401", "optimizer.step() without a backward pass that was understood")
        params, grads = self.gradient_state(kind)
        opt_state = State(OPT_STATE, kind.place)
        shared = self.is_global(kind.place)
        optimizer = kind.place.short
        names = [self.state_name(params), self.state_name(opt_state)]
        p, o = names
        statics = [] if shared else [optimizer]
        body: list[Statement] = []
        clip_arguments: list[Expr] = []
        clip_names: list[str] = []
        if self.pending_clip is not None:
            self.unit.use_snippet("clip_grad_norm")
            value = self.pending_clip
            if not isinstance(value, cst.Float | cst.Integer):
                clip_arguments, clip_names, value = [value], ["max_norm"], nodes.name("max_norm")
            body.append(nodes.statement("grads, _ = clip_grad_norm(grads, {value})", value=value))
            self.pending_clip = None
        body.append(nodes.statement(f"updates, {o} = {optimizer}.update(grads, {o}, {p})"))
        body.append(nodes.statement(f"return optax.apply_updates({p}, updates), {o}"))
        parameters = [*statics, p, o, "grads", *clip_names]
        decorator = jit_decorator(statics, names)

        def make(name: str) -> list[Statement]:
            return [suites.function(name, parameters, body, decorator)]

        name = self.unit.helper("optimizer_update", make, f"{decorator}({parameters})" + cst.Module(body).code)
        arguments = [self.read(params), self.read(opt_state), self.read(grads), *clip_arguments]
        if not shared:
            arguments.insert(0, nodes.expression(kind.place.name))
        targets = nodes.tuple_of([self.write(params), self.write(opt_state)], parentheses=False)
        return [nodes.statement("{t} = {c}", t=targets, c=nodes.call(name, *arguments))]
