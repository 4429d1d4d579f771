"""Lists that a constructor is given, put together with others: `[width] + hidden`.

In a field of Flax's such a list is a tuple, since modules are hashed; a list takes its elements.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Items, Kind, Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


class GivenLists(Scope):
    """Sums of lists in modules."""

    def put_together(self, node: cst.BinaryOperation, left: Value, right: Value) -> Expr | None:
        """`[*before, *self.widths]` for `before + widths`; None for other sums."""
        sides = [(node.left, left.kind), (node.right, right.kind)]
        types = set[str]().union(*(given_as(self, side, kind) for side, kind in sides))
        if "tuple" in types or "list" not in types or any(isinstance(kind, Tensor | Host) for _, kind in sides):
            return None
        if not isinstance(node.operator, cst.Add) or not is_given(self, node):
            return None
        return cst.List([element for value in (left, right) for element in _elements(value.node)])


def type_test(scope: Scope, node: cst.Call) -> cst.Call:
    """`isinstance(widths, (list, tuple))` for `isinstance(widths, list)` of such a list; other tests as they are."""
    if len(node.args) != 2 or not is_given(scope, node.args[0].value):
        return node
    asked = node.args[1].value
    parts = nodes.elements(asked) if isinstance(asked, cst.Tuple) else [asked]
    named = {"list", "tuple"} & {nodes.dotted(part) for part in parts}
    if len(named) != 1:
        return node
    if given_as(scope, node.args[0].value, scope.kind_of(node.args[0].value)) & {"list", "tuple"} - named:
        raise Unsupported("MIG304", f"{nodes.code(node)}: a list that a constructor is given is a tuple in Flax")
    if named == {"tuple"}:
        return node
    return node.with_changes(args=nodes.arguments([node.args[0].value, nodes.tuple_of([*parts, nodes.name("tuple")])]))


def type_compared(scope: Scope, node: cst.Comparison) -> cst.Call | None:
    """`isinstance(widths, list)` for `type(widths) == list` of such a list; None for other comparisons."""
    asked, compared = node.left, node.comparisons[0]
    if len(node.comparisons) > 1 or not isinstance(compared.operator, cst.Equal | cst.Is):
        return None
    if not isinstance(asked, cst.Call) or nodes.dotted(asked.func) != "type" or len(asked.args) != 1:
        return None
    of_lists = nodes.dotted(compared.comparator) in ("list", "tuple") and is_given(scope, asked.args[0].value)
    return nodes.call("isinstance", asked.args[0].value, compared.comparator) if of_lists else None


def given_as(scope: Scope, node: Expr, kind: Kind) -> set[str]:
    """Whether an expression is a list or a tuple in torch, as far as that is known: of a field, what calls give."""
    path = (nodes.dotted(_unsliced(node)) or "").removeprefix("self.")
    facts = scope.script.classes[scope.cls] if is_given(scope, node) else None
    given = {type_ for field, type_ in facts.given_lists if field == path} if facts is not None else set[str]()
    return given or ({kind.type} if isinstance(kind, Items) else set())


def is_given(scope: Scope, node: Expr) -> bool:
    """Whether an expression is, or is made of, a list that the constructor of the module at hand is given."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return is_given(scope, node.left) or is_given(scope, node.right)
    facts, path = scope.script.classes.get(scope.cls), nodes.dotted(_unsliced(node)) or ""
    if facts is None or scope.context not in ("setup", "forward"):
        return False
    return path.removeprefix("self.") in facts.fields and (scope.context == "setup" or path.startswith("self."))


def _unsliced(node: Expr) -> Expr:
    """The list that `widths[1:]` is a part of."""
    while isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice):
        node = node.value
    return node


def _elements(node: Expr) -> list[cst.BaseElement]:
    if isinstance(node, cst.List):
        return [element.with_changes(comma=cst.MaybeSentinel.DEFAULT) for element in node.elements]
    return [cst.StarredElement(node)]
