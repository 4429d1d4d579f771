"""What an attribute of a trainer stands for, seen from where its model is made: in `for x in self.batches` it is
`data.batches()`, which a method gives it before the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import libcst as cst

from migrate.known.facts import CallSite, FunctionFacts
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def attribute_given(methods: Mapping[str, FunctionFacts], name: str) -> tuple[str, Expr] | None:
    """The method that binds an attribute of its object, and to what; None where there is not exactly one such
    statement. That it is None until then, or is counted on, does not matter to an example."""
    found: list[tuple[str, Expr]] = []
    for method, facts in methods.items():
        for assign in every(facts.node.body, cst.Assign):
            if nodes.is_literal(assign.value, None):
                continue
            for target in assign.targets:
                value = _part(target.target, assign.value, name)
                found += [] if value is None else [(method, value)]
    return found[0] if len(found) == 1 else None


def _part(target: cst.CSTNode, value: Expr, name: str) -> Expr | None:
    """What of a value a target gives the attribute; None where it gives it nothing."""
    if isinstance(target, cst.Attribute) and nodes.dotted(target) == f"self.{name}":
        return value
    if not isinstance(target, cst.Tuple | cst.List):
        return None
    for number, element in enumerate(target.elements):
        if name in usage.attributes_in(element.value):
            if isinstance(value, cst.Tuple) and len(value.elements) == len(target.elements):
                return _part(element.value, value.elements[number].value, name)
            return _part(element.value, nodes.expression(f"{{v}}[{number}]", v=value), name)
    return None


def with_receiver(call: CallSite) -> Mapping[str, Expr]:
    """What a call of a method gives its parameters, `self` too where an object is named in it."""
    func = call.node.func if call.node is not None else None
    return {**call.bound, "self": func.value} if isinstance(func, cst.Attribute) else call.bound


class Followed(cst.CSTTransformer):
    """Puts names in the place of attributes of `self` that `value_of` knows. `values`: what they stand for."""

    def __init__(self, value_of: Callable[[str], Expr | None], values: dict[str, Expr]) -> None:
        super().__init__()
        self.value_of, self.values = value_of, values

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        if nodes.dotted(original_node.value) != "self":
            return updated_node
        value = self.value_of(original_node.attr.value)
        if value is None:
            return updated_node
        name = f"__held_{len(self.values)}__"
        self.values[name] = nodes.parenthesized(value) if isinstance(value, cst.BinaryOperation) else value
        return nodes.name(name)
