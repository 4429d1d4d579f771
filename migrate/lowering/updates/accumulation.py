"""Gradients that accumulate: optimizers that step apart from `backward()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    Leaf,
    Model,
    Optimizer,
    Place,
    Tensor,
)
from migrate.known.states import GRADS, OPT_STATE, PARAMS, State
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.updates.clipping import Clipping
from migrate.lowering.updates.gradients import LACKING
from migrate.lowering.updates.missing_gradients import Gradient, MissingGradients
from migrate.lowering.updates.region import method_call_of
from migrate.lowering.updates.step_function import jit_decorator
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement

_INFINITE = ("float('inf')", 'float("inf")', "jnp.inf")  # norms of the largest element


class Accumulation(Clipping, Binding, MissingGradients):
    """Optimizer steps on accumulated gradients."""

    def accumulates(self, kind: Optimizer) -> bool:
        """Whether the optimizer steps apart from `backward()`."""
        return any(self.root(place) in self.script.accumulated for place in kind.models)

    def gradient_states(self, models: Sequence[Place]) -> list[tuple[State, State]]:
        """The parameters of models, and their gradients, in this scope."""
        return [(State(PARAMS, place), State(GRADS, place)) for place in map(self.seen_here, models)]

    def seen_here(self, model: Place) -> Place:
        """A model under the name that this scope has for it."""
        root = self.root(model)
        names = [*self.env.kinds, *(self.env.outer.kinds if self.env.outer else {})]
        kinds = [self.kind_of_name(name) for name in names]
        places = [kind.place for kind in kinds if isinstance(kind, Model | Leaf) and kind.place]
        return next((place for place in places if self.root(place) == root), root)

    def zero_grad(self, kind: Optimizer) -> list[Statement]:
        """`optimizer.zero_grad()`: nothing, unless gradients are kept."""
        if not self.accumulates(kind):
            return []
        return self.zeroed_gradients(kind.models)

    def zeroed_gradients(self, models: Sequence[Place]) -> list[Statement]:
        """Starts the sums of gradients anew."""
        cleared, self.cleared_by_step = self.cleared_by_step, frozenset()
        made: list[Statement] = []
        for params, grads in self.gradient_states(models):
            if self.root(grads.place) not in self.script.accumulated:
                continue
            # a function that clears them takes them all the same, so its callers must have them
            if self.root(grads.place) not in self.script.summed and self.scope == self.root(grads.place).scope:
                self.script.found_zeroed_first.add(self.root(grads.place))
            if self.root(grads.place) not in cleared:
                made.append(self.zero_gradients(params, grads))
        return made

    def clip_statement(self, node: cst.Call, bound: Expr | None = None) -> list[Statement]:
        """`norm = clip_grad_norm_(...)` apart from `backward()`. What clips right before an optimizer step is done by
        its function."""
        clip = self.clipping(node)
        following = list(self.following[0]) if self.following else []
        step = method_call_of(following[0], "step") if following and _is_statement(following[0]) else None
        stepped = self.kind_of(step.value) if step is not None else None
        own = set(map(self.root, stepped.models)) if isinstance(stepped, Optimizer) else set[Place]()
        if own >= set(map(self.root, clip.models)) and (clip.norm or bound is None):
            read = bound is not None and (not isinstance(bound, cst.Name) or self.live(bound.value))
            self.pending_clip, self.pending_norm = clip, bound if read else None
            if bound is not None:
                self.bind(bound, Tensor("float", 0))
            return []
        if clip.norm and any(self.frozen_here(place) for place in clip.models):
            raise Unsupported("MIG302", f"{nodes.code(node)} of a model with frozen weights, before other statements")
        states = [grads for _, grads in self.gradient_states(clip.models)]
        there = {self.gradient_now(place) for place in clip.models}
        if there == {Gradient.NONE} and bound is None:
            return []
        if there != {Gradient.SOME}:
            raise Unsupported("MIG401", f"{nodes.code(node)}, {LACKING}")
        if any(self.root(state.place) not in self.script.accumulated for state in states):
            raise Unsupported("MIG401", f"{nodes.code(node)} without a backward pass that was understood")
        self.unit.use_snippet(clip.snippet)
        targets = nodes.bare_tuple([self.write(state) for state in states])
        grads = nodes.tuple_of([self.read(state) for state in states])
        call = nodes.call(clip.snippet, grads if len(states) > 1 else self.read(states[0]), *clip.arguments)
        if not clip.norm:
            return [nodes.statement("{targets} = {call}", targets=targets, call=call)]
        if bound is not None:
            self.bind(bound, Tensor("float", 0))
        tree = nodes.tuple_of([self.write(state) for state in states]) if len(states) > 1 else targets
        both = nodes.tuple_of([tree, bound or nodes.name("_")], parentheses=False)
        return [nodes.statement("{both} = {call}", both=both, call=call)]

    def optimizer_step(self, node: cst.Call, kind: Optimizer) -> list[Statement]:
        """`optimizer.step()` apart from `backward()`: the accumulated gradients are applied."""
        if node.args or self.evaluates(kind):
            raise Unsupported("MIG401", f"{nodes.code(node)}: a closure that is not known")
        there = {self.root(place): self.gradient_now(place) for place in kind.models}
        if there and set(there.values()) == {Gradient.NONE}:
            if self.pending_norm is not None:
                raise Unsupported("MIG401", f"{nodes.code(node)} without gradients, whose norm is read")
            self.pending_clip = None
            return []
        if not self.accumulates(kind):
            raise Unsupported("MIG401", "optimizer.step() without a backward pass that was understood")
        lacking = self.may_lack(node, there)
        states = self.gradient_states(kind.models)
        opt_state = State(OPT_STATE, kind.place)
        shared = self.is_global(kind.place)
        optimizer = kind.place.short
        p = [self.state_name(params) for params, _ in states]
        g = [self.state_name(grads) for _, grads in states]
        o = self.state_name(opt_state)
        objects = [] if shared else [optimizer]
        body: list[Statement] = []
        clip_arguments: list[Expr] = []
        clip_names: list[str] = []
        params, grads = _tree(p), _tree(g)
        clip, self.pending_clip = self.pending_clip, None
        norm, self.pending_norm = self.pending_norm, None
        self.cleared_by_step = self.cleared_next(kind)
        if self.root(kind.place) in self.script.spoiling and not self.cleared_by_step:
            raise Unsupported("MIG401", f"{nodes.code(node)} changes gradients that are not cleared at once")
        if clip is not None:
            self.unit.use_snippet(clip.snippet)
            values: list[Expr] = []
            for number, value in enumerate(clip.arguments):
                if nodes.literal(value) is ... and nodes.code(value) not in _INFINITE:
                    clip_arguments.append(value)
                    clip_names.append(("max_norm", "norm_type")[number] if clip.norm else "clip_value")
                    value = nodes.name(clip_names[-1])
                values.append(value)
            clipped = _tree([self.state_name(grads) for _, grads in self.gradient_states(clip.models)])
            call = nodes.call(clip.snippet, nodes.expression(clipped), *values)
            target = f"{clipped}, {'_' if norm is None else 'norm'}" if clip.norm else clipped
            for place in clip.models if clip.norm else ():
                body += self.only_trained(place, self.state_name(State(GRADS, place)))
            body.append(nodes.statement(f"{target} = {{call}}", call=call))
        frozen, told = self.frozen_states(kind.models), self.told_frozen(kind.models)
        frozen_names = list(map(self.state_name, frozen))
        body.append(nodes.statement(f"updates, {o} = {optimizer}.update({grads}, {o}, {params}{told})"))
        results = [o, *(f"jax.tree.map(jnp.zeros_like, {name})" for name in g if self.cleared_by_step)]
        results += [] if norm is None else ["norm"]
        if len(states) == 1:
            results.insert(0, f"optax.apply_updates({params}, updates)")
        else:
            body.append(nodes.statement(f"{', '.join(p)} = optax.apply_updates({params}, updates)"))
            results[:0] = p
        body.append(nodes.statement(f"return {', '.join(results)}"))
        parameters = [*objects, *p, o, *g, *frozen_names, *clip_names]
        statics = [*objects, *frozen_names, *(name for name in clip_names if name == "norm_type")]
        decorator = jit_decorator(statics, [*p, o, *(g if self.cleared_by_step else ())])

        def make(name: str) -> list[Statement]:
            return [suites.function(name, parameters, body, decorator)]

        name = self.unit.helper("optimizer_update", make, f"{decorator}({parameters})" + cst.Module(body).code)
        arguments = [*(self.read(params) for params, _ in states), self.read(opt_state)]
        arguments += [*(self.read(grads) for _, grads in states), *map(self.read, frozen), *clip_arguments]
        if not shared:
            arguments.insert(0, nodes.expression(self.named_here(kind.place)))
        written = [*(self.write(params) for params, _ in states), self.write(opt_state)]
        written += [self.write(grads) for _, grads in states if self.cleared_by_step]
        written += [] if norm is None else [norm]
        targets = nodes.tuple_of(written, parentheses=False)
        made = nodes.statement("{t} = {c}", t=targets, c=nodes.call(name, *arguments))
        if not lacking:
            return [made]
        test = nodes.expression("{g} is not None", g=self.read(states[0][1]))
        return [cst.If(test, cst.IndentedBlock([made]))]

    def may_lack(self, node: cst.Call, there: Mapping[Place, Gradient]) -> bool:
        """Whether a step may find None for its gradients: it must then be left out. `there`: what is known of them, by
        the models that it steps."""
        if all(each == Gradient.SOME for each in there.values()):
            return False
        self.script.found_lacking |= set(there)
        others = len(there) > 1 or self.pending_norm is not None or set(there) & self.script.leaves
        if others or set(there) & self.script.inspected:
            raise Unsupported("MIG401", f"{nodes.code(node)}, {LACKING}")
        return True

    def cleared_next(self, kind: Optimizer) -> frozenset[Place]:
        """The models of an optimizer, where the next statement clears the gradients of these and no others: the step
        can do it at once."""
        models = frozenset(map(self.root, kind.models))
        following = next(iter(self.following[0]), None) if self.following else None
        clears = isinstance(following, cst.SimpleStatementLine) and self.zeroed(following) == models
        return models if clears and not models & (self.script.leaves | self.script.lacking) else frozenset()


def _tree(names: Sequence[str]) -> str:
    """Several trees as one."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _is_statement(node: cst.CSTNode) -> TypeGuard[Statement]:
    return isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
