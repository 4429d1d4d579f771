"""Gradients that a script clears itself, in the plain terms `w.grad = None` and `optimizer.zero_grad()`."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Function
from migrate.lowering.plainer.one_line import taken_apart
from migrate.lowering.updates.gradient_flow import GradientFlow
from migrate.lowering.updates.region import call_of, method_call_of
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Statement


class ClearedByHand(GradientFlow):
    """Branches and functions that do nothing else."""

    def cleared_by_function(self, statement: cst.SimpleStatementLine) -> list[Statement] | None:
        """`reset_grad()`: the calls of `zero_grad()` that a function of this file, or a method of the same object,
        consists of; None for other statements."""
        call = call_of(statement)
        kind = self.kind_of(call.func) if call is not None and not call.args else None
        facts = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
        if facts is None or facts.parameter_names[int(facts.method) :]:
            return None
        body = [each for each in suites.suite_of(facts.node.body.body) if not suites.is_docstring(each)]
        receivers = [method_call_of(each, "zero_grad") for each in body]
        roots = {nodes.root(one.value) for one in receivers if one is not None}
        names = {root.value for root in roots if isinstance(root, cst.Name)}
        shadowed = self.facts is not None and bool(names & self.facts.own_names)
        own = names == {"self"} if facts.method else facts.owner == self.unit.scope and not shadowed
        if not body or None in receivers or not own:
            return None
        if statement not in self.unit.apart:
            made = [each.with_changes(leading_lines=[]).deep_clone() for each in body]
            made[0] = made[0].with_changes(leading_lines=statement.leading_lines)
            for each in made:
                self.unit.stands_for(each, statement)
            self.unit.apart[statement] = made
        return self.unit.apart[statement]

    def cleared_where_there(self, branch: cst.If) -> Statement | None:
        """`if w.grad is not None: w.grad.zero_()` as `w.grad = None`: what is not there is as good as cleared."""
        test, gradient = branch.test, branch.test
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
            there = isinstance(operator, cst.IsNot | cst.NotEqual) and nodes.is_literal(other, None)
            gradient = test.left if there else test
        if not isinstance(gradient, cst.Attribute) or gradient.attr.value != "grad" or branch.orelse is not None:
            return None
        body = [each for statement in suites.suite_of(branch.body.body) for each in taken_apart(self.unit, statement)]
        cleared = [self.zeroed_leaf(each.body[0]) for each in body if isinstance(each, cst.SimpleStatementLine)]
        read_only = all(_reads_or_clears(each, nodes.code(gradient)) for each in body)
        if not cleared or cleared[-1] is None or not read_only:
            return None
        if branch not in self.unit.plain:
            made = nodes.statement("{g} = None", g=gradient).with_changes(leading_lines=branch.leading_lines)
            self.unit.stands_for(made, branch)
            self.unit.plain[branch] = made
        return self.unit.plain[branch]


def _reads_or_clears(statement: Statement, gradient: str) -> bool:
    """Whether a statement clears a gradient, takes it off its graph, or does no more than give it a name."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    call = small.value if isinstance(small, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        method, receiver = call.func.attr.value, nodes.code(call.func.value)
        return method in ("zero_", "detach_") and receiver in (gradient, f"{gradient}.data")
    if not isinstance(small, cst.Assign):
        return False
    named = nodes.code(small.value) in (gradient, f"{gradient}.data") and isinstance(small.targets[0].target, cst.Name)
    return named or nodes.code(small.targets[0].target) == gradient
