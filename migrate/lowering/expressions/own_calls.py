"""Calls of the module itself and of its methods: `self(x)`, `self.encode(x)`.

A base may leave the pass to the classes that inherit from it: `out = self(batch)` in a step that all of them share. It
calls whichever of theirs the object has, so that each is told what it is called with.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import UNKNOWN, SelfModule
from migrate.known.qualified import spelled
from migrate.lowering.expressions.arguments import Arguments, placed
from migrate.lowering.expressions.elements import computed
from migrate.lowering.models.chosen_models import joined_results
from migrate.rules.rule import Value
from migrate.syntax.nodes import Expr


class OwnCalls(Arguments):
    """What a module class calls of its own."""

    def own_pass(self, node: cst.Call, kind: SelfModule) -> Value:
        """`self(x)`."""
        own = self.script.functions.get(f"{kind.cls}.forward")
        if own is None:
            return self.call_of_heirs(node, node.func, self.methods_of_heirs(kind.cls, "forward"))
        values = [self.array(arg.value) for arg in node.args]
        self.pass_kinds(own, node.args, values)
        return Value(node.with_changes(args=placed(node.args, values)), own.result)

    def methods_of_heirs(self, cls: str, method: str) -> list[FunctionFacts]:
        """A method that a class lacks, as each class has it that inherits from it; none where one has none."""
        found = [self.script.functions.get(f"{heir.name}.{method}") for heir in self.script.heirs(cls)]
        return [facts for facts in found if facts is not None] if None not in found else []

    def call_of_heirs(self, node: cst.Call, func: Expr, methods: Sequence[FunctionFacts]) -> Value:
        """A call of a method that the classes have that inherit from this one, if any does."""
        if not methods:
            return Value(node.with_changes(func=func, args=self.array_args(node.args)), UNKNOWN)
        drawing = next((facts for facts in methods if facts.draws), None)
        if drawing is not None:
            told = f"{spelled(drawing.qualname)}, which is given what it draws, is called by the class that it inherits"
            raise Unsupported("MIG404", f"{told} from")
        values = [self.array(arg.value) for arg in node.args]
        for facts in methods:
            self.pass_kinds(facts, node.args, values)
        called = node.with_changes(func=func, args=placed(node.args, values))
        return self.as_decorated(Value(called, computed(joined_results(methods))), methods)
