"""The elements of a packed sequence, `packed.data` or `packed[0]`.

In torch they are rows, as many as the lengths say together. Here they stay the padded array and the lengths: layers
that take each row for itself take the array, and a loss leaves out what is behind the ends.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode, ListNode, Node
from migrate.known.kinds import Loss, Module, Packed, PackedElements
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_OF_ROWS = frozenset(
    f"torch.nn.{name}"
    for name in (
        "Linear", "Embedding", "LayerNorm", "Identity", "Dropout", "ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Tanh",
        "Sigmoid",
    )
)  # fmt: skip


def elements_of(node: cst.Attribute | cst.Subscript, base: Value) -> Value | None:
    """`packed.data` and `packed[0]`; None of what is no packed sequence. Raises Unsupported of what else is read from
    one, and of what is read from its elements."""
    if not isinstance(base.kind, Packed | PackedElements):
        return None
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    first = isinstance(index, cst.Index) and nodes.is_literal(index.value, 0)
    named = isinstance(node, cst.Attribute) and node.attr.value == "data"
    if not (first or named) or isinstance(base.kind, PackedElements):
        raise of_packed(node)
    return Value(base.node, PackedElements())


def of_packed(node: cst.CSTNode) -> Unsupported:
    """What is said of what reads a packed sequence otherwise."""
    return Unsupported("MIG302", f"{nodes.code(node)} of a packed sequence, whose length depends on the data")


def refuse_rows(node: cst.CSTNode, *values: Value) -> None:
    """Declines an operation on the elements of a packed sequence."""
    if any(isinstance(value.kind, PackedElements) for value in values):
        raise of_packed(node)


def of_each_row(node: cst.Call, layer: Expr, kind: Module, rows: Value) -> Value:
    """A call of a layer with the elements of a packed sequence: it takes the padded array."""
    if not kind.options or not all(map(_takes_rows, kind.options)) or len(node.args) != 1:
        raise of_packed(node)
    if isinstance(rows.node, cst.Tuple):
        x, lengths = nodes.elements(rows.node)
    elif nodes.dotted(rows.node):
        x, lengths = (nodes.expression(f"{{rows}}[{number}]", rows=rows.node) for number in range(2))
    else:
        raise of_packed(node)
    return Value(nodes.tuple_of([nodes.call(layer, x), lengths]), PackedElements())


def _takes_rows(node: Node) -> bool:
    if isinstance(node, ListNode):
        return node.infix.startswith("/") and all(map(_takes_rows, node.children))
    return isinstance(node, LayerNode) and node.torch in _OF_ROWS


def rows_of(node: cst.Call, kind: Loss, values: list[Value]) -> cst.Call:
    """Outputs and labels of packed sequences as rows, for a loss that leaves labels out: those behind the ends."""
    plain = kind.ignored is not None and kind.reduced and kind.takes == ("input", "target")
    if not plain or not all(isinstance(value.kind, PackedElements) for value in values):
        raise of_packed(node)
    options = {} if kind.ignored == -100 else {"ignore_index": cst.parse_expression(str(kind.ignored))}
    return nodes.call("packed_labels", *(value.node for value in values), **options)
