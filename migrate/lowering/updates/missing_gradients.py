"""Whether there are gradients where an optimizer steps: `zero_grad()` leaves None, and torch's step then passes over
the weights, where one of optax's on zeros would go on with momentum and weight decay.

Loops count as having turns, and functions of the script's own that work on gradients as having made them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag

import libcst as cst

from migrate.known.kinds import Function, Place
from migrate.known.states import GRADS, State
from migrate.lowering.statements.blocks import first_later
from migrate.lowering.updates.gradient_flow import GradientFlow
from migrate.lowering.updates.region import method_call_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


class Gradient(Flag):
    """What a weight may have as its gradient: None, a tensor, or either as the script runs."""

    NOT_RUN = 0
    NONE = 1
    SOME = 2
    EITHER = 3


class MissingGradients(GradientFlow):
    """What there is of gradients at a statement."""

    def gradient_now(self, model: Place) -> Gradient:
        """What the weights of a model have as gradients before the statement at hand."""
        found = Gradient.NONE if self.facts is None else Gradient.SOME
        for block in self.blocks:
            walk = _Walk(self, self.root(model))
            if block.cyclic:
                found |= walk.suite(block.statements, found) | walk.left
            found = walk.suite(block.statements[: block.index], found)
        return found

    def left_for_later(self, root: Place) -> bool:
        """Whether gradients that a step leaves may be added to, or read, before they are cleared."""
        if root not in self.script.accumulated:
            return False

        def met(node: cst.CSTNode) -> str:
            if isinstance(node, cst.FunctionDef | cst.ClassDef):
                return ""
            if isinstance(node, cst.SimpleStatementLine) and root in self.zeroed(node):
                return "store"
            return "load" if self.may_make_gradient(node, root) else ""

        found = first_later(self.following, lambda statement: usage.first_met([statement], met))
        return found == "load" or (not found and self.facts is not None)  # by what its callers do

    def may_make_gradient(self, statement: cst.CSTNode, root: Place) -> bool:
        """Whether a statement goes backward, sets a gradient, or calls what works on gradients."""
        for call in usage.calls(statement):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
                return True
            kind = self.kind_of_name(nodes.dotted(call.func) or "")
            facts = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
            changed = facts.sets | facts.writes if facts is not None else set[State]()
            if any(each.what == GRADS and self.root(each.place) == root for each in changed):
                return True
        targets = [nodes.dotted(each.target) or "" for each in every(statement, cst.AssignTarget)]
        return any(path.endswith(".grad") for path in targets)


class _Walk:
    """A walk over statements that are about to run."""

    def __init__(self, scope: MissingGradients, root: Place) -> None:
        self.scope = scope
        self.root = root
        self.left = Gradient.NOT_RUN  # where a turn of the innermost loop is cut short

    def suite(self, statements: Sequence[Statement], found: Gradient) -> Gradient:
        """What there is at the end of a block, which begins with what was `found`."""
        for statement in statements:
            found = self.statement(statement, found)
        return found

    def statement(self, statement: Statement, found: Gradient) -> Gradient:
        """What there is after a statement."""
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) or not found:
            return found
        if isinstance(statement, cst.If):
            return self.branch(statement, found)
        if isinstance(statement, cst.For | cst.While):
            body, around = suites.suite_of(statement.body.body), self.left
            self.left = Gradient.NOT_RUN
            again = self.suite(body, found) | self.left
            after = self.suite(body, found | again) | self.left
            self.left = around
            return after
        if isinstance(statement, cst.With):
            return self.suite(suites.suite_of(statement.body.body), found)
        if isinstance(statement, cst.Try):
            after = self.suite(suites.suite_of(statement.body.body), found)
            for handler in statement.handlers:
                after |= self.suite(suites.suite_of(handler.body.body), found)
            return after
        if self.root in self.scope.zeroed(statement):
            return found if _keeps_zeros(statement) else Gradient.NONE
        if suites.may_leave(statement):
            self.left |= found
            return Gradient.NOT_RUN
        return Gradient.SOME if self.scope.may_make_gradient(statement, self.root) else found

    def branch(self, branch: cst.If, found: Gradient) -> Gradient:
        """What there is after either side of a branch."""
        after, other = self.suite(suites.suite_of(branch.body.body), found), branch.orelse
        if other is None:
            return after | found
        return after | (
            self.branch(other, found)
            if isinstance(other, cst.If)
            else self.suite(suites.suite_of(other.body.body), found)
        )


def _keeps_zeros(statement: Statement) -> bool:
    """Whether a statement fills gradients that are there with zeros: `optimizer.zero_grad(set_to_none=False)`."""
    func = method_call_of(statement, "zero_grad")
    if func is None:  # `w.grad.zero_()`
        methods = [call.func for call in usage.calls(statement) if isinstance(call.func, cst.Attribute)]
        return any(method.attr.value == "zero_" for method in methods)
    return any(nodes.is_literal(arg.value, False) for call in usage.calls(statement) for arg in call.args)
