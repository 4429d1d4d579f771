"""`optimizer.step(closure)` of optimizers that evaluate the closure as often as they need."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import CallSite
from migrate.known.kinds import Function, Never, Optimizer, Tensor
from migrate.known.states import GRADS, OPT_STATE, PARAMS, State
from migrate.lowering.expressions.user_calls import UserCalls
from migrate.lowering.updates.accumulation import Accumulation
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement


class Closures(UserCalls, Accumulation):
    """Steps that are given a closure."""

    def evaluating_step(self, node: Expr) -> tuple[cst.Call, Optimizer] | None:
        """The call and the optimizer of `optimizer.step(closure)`; None for anything else."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
            return None
        kind = self.kind_of(node.func.value) if node.func.attr.value == "step" else None
        return (node, kind) if isinstance(kind, Optimizer) and self.evaluates(kind) else None

    def closure_step(self, node: cst.Call, kind: Optimizer, bound: Expr | None = None) -> list[Statement]:
        """`params, opt_state, grads, loss = optimizer.step(closure, params, opt_state, grads)`."""
        closure = node.args[0].value
        function = self.kind_of(closure)
        if not isinstance(function, Function) or len(kind.models) != 1:
            raise Unsupported("MIG401", f"{nodes.code(node)}: a closure that is no function of its own, or two models")
        facts = self.script.functions[function.name]
        facts.found_evaluated |= facts.method
        params = State(PARAMS, self.seen_here(kind.models[0]))
        grads = State(GRADS, params.place)
        needed = {(state.what, self.root(self.outside(facts, state.place))) for state in facts.states}
        own = facts.parameter_names[1:] if facts.method else facts.parameter_names
        called = facts.method and any(site.node is not None for site in facts.calls)
        if needed != {(state.what, self.root(state.place)) for state in (params, grads)} or own or called:
            raise Unsupported("MIG401", f"{nodes.code(closure)} needs more than parameters and gradients")
        if isinstance(facts.returns, Never):
            raise Unsupported("MIG401", f"{nodes.code(closure)} returns no loss")
        facts.found_calls.append(CallSite(self.scope, {}, dict(self.env.definitions)))
        self.pass_modes(facts)
        states = [params, State(OPT_STATE, kind.place), grads]
        made = nodes.call(nodes.expression(f"{self.named_here(kind.place)}.step"), closure, *map(self.read, states))
        targets = [*map(self.write, states), bound or nodes.name("_")]
        self.note_training(params)
        if bound is not None:
            self.bind(bound, Tensor("float", 0))
        return [nodes.statement("{t} = {c}", t=nodes.bare_tuple(targets), c=made)]
