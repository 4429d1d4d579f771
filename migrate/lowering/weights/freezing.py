"""The statements that say of weights whether they are trained: `requires_grad = False`."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Leaf, Tensor
from migrate.known.weight_kinds import Selection
from migrate.lowering.weights.frozen_weights import FrozenWeights
from migrate.lowering.weights.selections import names_of_pair, without
from migrate.lowering.weights.sorted_names import SortedNames
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import switched


class Freezing(SortedNames, FrozenWeights):
    """Loops, calls and assignments that freeze weights, or free them."""

    def freezing_loop(self, node: cst.For) -> list[Statement] | None:
        """`for p in model.parameters(): p.requires_grad = False`; None for other loops."""
        names = names_of_pair(node.target)
        whole = self.selection(node.iter) if names is not None and only_switches(node) else None
        if names is None or whole is None:
            return None
        return [made for statement in suites.suite_of(node.body.body) for made in self.switch(statement, whole, names)]

    def switch(self, statement: Statement, chosen: Selection, names: list[str]) -> list[Statement]:
        """One statement of such a loop, for some of the weights."""
        if isinstance(statement, cst.If):
            held = self.those(chosen, statement.test, names)
            sides = zip((held, without(chosen, held)), suites.sides(statement), strict=True)
            return [made for some, side in sides for inner in side for made in self.switch(inner, some, names)]
        value = flag_of(statement, names[-1])
        if value is None:
            return []
        if {*names} & {*usage.loads(value)}:
            held = self.those(chosen, value, names)
            return [*self.freeze(held, True, statement), *self.freeze(without(chosen, held), False, statement)]
        return self.freeze_where(chosen, value, statement)

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
        return self.freeze_where(chosen, node.args[0].value if node.args else nodes.name("True"), node)

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
        return self.freeze_where(chosen, small.value, small)

    def freeze_where(self, chosen: Selection, value: Expr, node: cst.CSTNode) -> list[Statement]:
        """`requires_grad = value` of some weights, which may be told as the script runs."""
        flag = flag_told(value)
        if flag is not None:
            return self.freeze(chosen, flag, node)
        flags = self.flags(value)
        made = {on: self.freeze(chosen, on, node, surely=bool(flags)) for on in flags or (True, False)}
        if len(made) < 2 or not any(made.values()):
            return [one for statements in made.values() for one in statements]
        return [cst.If(self.node(value), suites.block(made[True]), cst.Else(suites.block(made[False])))]

    def selection_at(self, node: Expr) -> Selection | None:
        """A model, a part of one, or one of its weights."""
        return self.one_weight(node) or self.part_of_model(node)

    def flags(self, value: Expr) -> set[bool]:
        """What a flag of a function is in its calls; empty of other values."""
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
        return set()


def flag_told(value: Expr) -> bool | None:
    """`True`, and `not False`; None of other values."""
    negated = isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Not)
    flag = nodes.literal(value.expression if isinstance(value, cst.UnaryOperation) and negated else value)
    return flag != negated if isinstance(flag, bool) else None


def flag_of(statement: Statement, weight: str) -> Expr | None:
    """What a statement sets `requires_grad` of a weight to."""
    found = switched(statement)
    return found[1] if found is not None and nodes.dotted(found[0]) == weight else None


def only_switches(loop: cst.For) -> bool:
    """Whether a loop over weights does nothing but set `requires_grad` of them."""
    names = names_of_pair(loop.target)
    if names is None or "requires_grad" not in nodes.code(loop.body) or loop.orelse is not None:
        return False
    return all(switches(statement, names[-1]) for statement in suites.suite_of(loop.body.body))


def switches(statement: Statement, weight: str) -> bool:
    """Whether a statement does nothing but set `requires_grad`."""
    if isinstance(statement, cst.If):
        return all(switches(one, weight) for side in suites.sides(statement) for one in side)
    return isinstance(suites.alone(statement), cst.Pass) or flag_of(statement, weight) is not None
