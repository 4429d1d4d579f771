"""Models of transformers without a cache of keys and values, which only generation has a use for: what goes by one is
decided as where there is none, and nobody is given one. `**kwargs` that are only handed on, for some ways to compute
attention, are not.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.plainer.copied_input import Placing
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

CACHE = frozenset({"past_key_values", "past_key_value", "layer_past", "use_cache", "cache_position"})


class WithoutCache(Placing):
    """Takes it off."""

    def __init__(self, models: Set[str], positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.models = models  # the classes of whole models; their parts are given more than they take
        self.spread: list[str] = []  # the names of `**kwargs` that are not handed on, of the functions around
        self.inside: list[str] = []  # the classes around

    # -- what is handed on --------------------------------------------------------------------------------------------

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.inside.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self.inside.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        rest = node.params.star_kwarg.name.value if node.params.star_kwarg is not None else ""
        self.spread.append(rest if rest and _only_handed_on(node, rest) else "")

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        named, params = self.spread.pop(), updated_node.params
        gone = bool(named) and bool(self.inside) and self.inside[-1] in self.models
        kept = [one for one in params.params if one.name.value not in CACHE]
        last = params.star_kwarg if gone else params.params[-1] if len(kept) < len(params.params) else None
        kept = kept if last is None else nodes.ending_as(kept, last)
        made = params.with_changes(params=kept, star_kwarg=None if gone else params.star_kwarg)
        return updated_node.with_changes(params=made)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if not self.spread:  # of a script that trains or generates
            return updated_node
        kept = [arg for arg in updated_node.args if not self.is_handed_on(arg)]
        return updated_node.with_changes(args=nodes.ending_as(kept, updated_node.args[-1]) if kept else kept)

    def is_handed_on(self, arg: cst.Arg) -> bool:
        """Whether an argument hands on a cache, or such `**kwargs`."""
        if arg.star == "**":
            return (nodes.dotted(arg.value) or "-") in self.spread
        if arg.keyword is None:
            value = arg.value.body if isinstance(arg.value, cst.IfExp) else arg.value
            return not arg.star and nodes.dotted(value) in CACHE  # for a parameter that goes, too
        asks = arg.keyword.value == "return_dict" and nodes.is_literal(arg.value, True)  # which all models do now
        return asks or arg.keyword.value in CACHE

    def leave_Dict(self, original_node: cst.Dict, updated_node: cst.Dict) -> cst.Dict:
        kept = [
            e for e in updated_node.elements if not (isinstance(e, cst.DictElement) and nodes.literal(e.key) in CACHE)
        ]
        return (
            updated_node.with_changes(elements=kept)
            if self.spread and len(kept) < len(updated_node.elements)
            else updated_node
        )

    # -- what goes by it ----------------------------------------------------------------------------------------------

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> Any:
        holds = _holds(original_node.test) if self.spread else None
        if holds is None:
            return updated_node
        if holds:
            return cst.FlattenSentinel(suites.suite_of(updated_node.body.body))
        if updated_node.orelse is None:
            return cst.RemoveFromParent()
        if isinstance(updated_node.orelse, cst.If):
            return updated_node.orelse
        return cst.FlattenSentinel(suites.suite_of(updated_node.orelse.body.body))

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        holds = _holds(original_node.test) if self.spread else None
        return updated_node if holds is None else updated_node.body if holds else updated_node.orelse

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = suites.alone(original_node)
        targets: Sequence[Expr] = []
        if isinstance(small, cst.Assign):
            targets = [one.target for one in small.targets]
        elif isinstance(small, cst.AnnAssign):
            targets = [small.target]
        named = (
            bool(targets)
            and bool(self.spread)
            and all(isinstance(one, cst.Name) and one.value in CACHE for one in targets)
        )
        return cst.RemoveFromParent() if named else updated_node


def _only_handed_on(function: cst.FunctionDef, name: str) -> bool:
    """Whether `**kwargs` are read for nothing but to be handed on."""
    spread = {id(arg.value) for arg in every(function.body, cst.Arg) if arg.star == "**"}
    return all(id(one) in spread for one in every(function.body, cst.Name) if one.value == name)


def _holds(test: Expr) -> bool | None:
    """What a test comes to where there is no cache; None where that goes by something else."""
    if isinstance(test, cst.Name):
        return False if test.value in CACHE else None
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        holds = _holds(test.expression)
        return None if holds is None else not holds
    if isinstance(test, cst.BooleanOperation):
        sides = [_holds(test.left), _holds(test.right)]
        settling = isinstance(test.operator, cst.Or)
        return settling if settling in sides else (not settling if None not in sides else None)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (compared,) = test.comparisons
        cached = isinstance(test.left, cst.Name) and test.left.value in CACHE - {"use_cache"}
        return isinstance(compared.operator, cst.Is) if cached and nodes.is_literal(compared.comparator, None) else None
    if isinstance(test, cst.Call) and nodes.dotted(test.func) == "isinstance":
        return False if nodes.dotted(test.args[0].value) in CACHE else None
    return None
