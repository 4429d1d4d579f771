"""Lists that a constructor is given, put together with others: `[width] + hidden`.

In a field of Flax's such a list is a tuple, since modules are hashed; a list takes its elements.
"""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.kinds import Host, Items, Tensor
from migrate.lowering.scope import Scope
from migrate.nodes import Expr
from migrate.rules.rule import Value


class GivenLists(Scope):
    """Sums of lists in modules."""

    def put_together(self, node: cst.BinaryOperation, left: Value, right: Value) -> Expr | None:
        """`[*before, *self.widths]` for `before + widths`; None for other sums."""
        if not isinstance(node.operator, cst.Add) or not (self.is_given(node.left) or self.is_given(node.right)):
            return None
        kinds = [left.kind, right.kind]
        tuples = any(isinstance(kind, Items) and kind.type == "tuple" for kind in kinds)
        lists = any(isinstance(kind, Items) and kind.type == "list" for kind in kinds)
        if tuples or not lists or any(isinstance(kind, Tensor | Host) for kind in kinds):
            return None
        return cst.List([element for value in (left, right) for element in _elements(value.node)])

    def is_given(self, node: Expr) -> bool:
        """Whether an expression is, or is made of, a list that the constructor of this module is given."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return self.is_given(node.left) or self.is_given(node.right)
        while isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice):
            node = node.value
        facts, path = self.script.classes.get(self.cls), nodes.dotted(node) or ""
        if facts is None or self.context not in ("setup", "forward"):
            return False
        return path.removeprefix("self.") in facts.fields and (self.context == "setup" or path.startswith("self."))


def _elements(node: Expr) -> list[cst.BaseElement]:
    if isinstance(node, cst.List):
        return [element.with_changes(comma=cst.MaybeSentinel.DEFAULT) for element in node.elements]
    return [cst.StarredElement(node)]
