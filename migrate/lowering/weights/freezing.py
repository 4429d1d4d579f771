"""Weights that are left as they are: `requires_grad = False`."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Leaf, Tensor
from migrate.known.weight_kinds import Selection
from migrate.lowering.weights.selections import names_of_pair, without
from migrate.lowering.weights.sorted_names import SortedNames
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import switched


class Freezing(SortedNames):
    """Statements that freeze weights disappear: their optimizer leaves those as they are."""

    def freezing_loop(self, node: cst.For) -> list[Statement] | None:
        """`for p in model.parameters(): p.requires_grad = False`; None for other loops."""
        names = names_of_pair(node.target)
        if names is None or "requires_grad" not in nodes.code(node.body) or node.orelse is not None:
            return None
        statements = suites.suite_of(node.body.body)
        if not all(switches(statement, names[-1]) for statement in statements):
            return None
        whole = self.selection(node.iter)
        if whole is None:
            return None
        for statement in statements:
            self.switch(statement, whole, names)
        return []

    def switch(self, statement: Statement, chosen: Selection, names: list[str]) -> None:
        """One statement of such a loop, for some of the weights."""
        if isinstance(statement, cst.If):
            held = self.those(chosen, statement.test, names)
            for some, side in zip((held, without(chosen, held)), suites.sides(statement), strict=True):
                for inner in side:
                    self.switch(inner, some, names)
            return
        value = flag_of(statement, names[-1])
        if value is not None:
            for on in self.flags(value):
                self.freeze(chosen, on, statement)

    def freezing_call(self, node: cst.Call) -> list[Statement] | None:
        """`model.features.requires_grad_(False)` as a statement; None for other calls."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "requires_grad_":
            return None
        if isinstance(self.kind_of(func.value), Tensor):
            return None
        chosen = self.selection_at(func.value)
        if chosen is None:
            return None
        for on in self.flags(node.args[0].value if node.args else nodes.name("True")):
            self.freeze(chosen, on, node)
        return []

    def freezing_assignment(self, small: cst.Assign) -> list[Statement] | None:
        """`model.head.weight.requires_grad = False`; None for other assignments."""
        target = small.targets[0].target
        if len(small.targets) != 1 or not isinstance(target, cst.Attribute) or target.attr.value != "requires_grad":
            return None
        if isinstance(self.kind_of(target.value), Leaf | Tensor):
            return None
        chosen = self.selection_at(target.value)
        if chosen is None:
            return None
        for on in self.flags(small.value):
            self.freeze(chosen, on, small)
        return []

    def selection_at(self, node: Expr) -> Selection | None:
        """A model, a part of one, or one of its weights."""
        return self.one_weight(node) or self.part_of_model(node)

    def flags(self, value: Expr) -> set[bool]:
        """What a flag may be: a literal, or what a function is called with."""
        found = nodes.literal(value)
        if isinstance(found, bool):
            return {found}
        given = [
            nodes.literal(site.bound[value.value])
            for site in (self.facts.calls if self.facts is not None else [])
            if isinstance(value, cst.Name) and value.value in site.bound
        ]
        if self.facts is not None and isinstance(value, cst.Name) and value.value in self.facts.parameter_names:
            for parameter in self.facts.node.params.params:
                if parameter.name.value == value.value and parameter.default is not None:
                    given.append(nodes.literal(parameter.default))
            if all(isinstance(one, bool) for one in given):
                return {one for one in given if isinstance(one, bool)}
        raise Unsupported("MIG401", f"requires_grad = {nodes.code(value)} is told while it runs")


def flag_of(statement: Statement, weight: str) -> Expr | None:
    """What a statement sets `requires_grad` of a weight to."""
    found = switched(statement)
    return found[1] if found is not None and nodes.dotted(found[0]) == weight else None


def switches(statement: Statement, weight: str) -> bool:
    """Whether a statement does nothing but set `requires_grad`."""
    if isinstance(statement, cst.If):
        return all(switches(one, weight) for side in suites.sides(statement) for one in side)
    return isinstance(suites.alone(statement), cst.Pass) or flag_of(statement, weight) is not None
