"""Lists that a constructor is given, put together with others: `[width] + hidden`.

In a field of Flax's such a list is a tuple, since modules are hashed; a list takes its elements.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Items, Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


class GivenLists(Scope):
    """Sums of lists in modules."""

    def put_together(self, node: cst.BinaryOperation, left: Value, right: Value) -> Expr | None:
        """`[*before, *self.widths]` for `before + widths`; None for other sums."""
        kinds = [left.kind, right.kind]
        tuples = any(isinstance(kind, Items) and kind.type == "tuple" for kind in kinds)
        lists = any(isinstance(kind, Items) and kind.type == "list" for kind in kinds)
        if tuples or not lists or any(isinstance(kind, Tensor | Host) for kind in kinds):
            return None
        if not isinstance(node.operator, cst.Add) or not is_given(self, node):
            return None
        return cst.List([element for value in (left, right) for element in _elements(value.node)])


def type_test(scope: Scope, node: cst.Call) -> cst.Call:
    """`isinstance(widths, (list, tuple))` for `isinstance(widths, list)` of such a list; other tests as they are."""
    if len(node.args) != 2 or not is_given(scope, node.args[0].value):
        return node
    asked, kind = node.args[1].value, scope.kind_of(node.args[0].value)
    parts = nodes.elements(asked) if isinstance(asked, cst.Tuple) else [asked]
    named = {"list", "tuple"} & {nodes.dotted(part) for part in parts}
    if len(named) != 1:
        return node
    if isinstance(kind, Items) and kind.type in {"list", "tuple"} - named:
        raise Unsupported("MIG304", f"{nodes.code(node)}: a list that a constructor is given is a tuple in Flax")
    if named == {"tuple"}:
        return node
    return node.with_changes(args=nodes.arguments([node.args[0].value, nodes.tuple_of([*parts, nodes.name("tuple")])]))


def is_given(scope: Scope, node: Expr) -> bool:
    """Whether an expression is, or is made of, a list that the constructor of the module at hand is given."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return is_given(scope, node.left) or is_given(scope, node.right)
    while isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice):
        node = node.value
    facts, path = scope.script.classes.get(scope.cls), nodes.dotted(node) or ""
    if facts is None or scope.context not in ("setup", "forward"):
        return False
    return path.removeprefix("self.") in facts.fields and (scope.context == "setup" or path.startswith("self."))


def _elements(node: Expr) -> list[cst.BaseElement]:
    if isinstance(node, cst.List):
        return [element.with_changes(comma=cst.MaybeSentinel.DEFAULT) for element in node.elements]
    return [cst.StarredElement(node)]
