"""Tensors where Python wants a number: torch takes any of one element, JAX only those without axes."""

from __future__ import annotations

import re

import libcst as cst

from migrate import layouts
from migrate.known.kinds import SHAPE, Items, Number, Plain, Tensor
from migrate.lowering.expressions.held_values import HeldValues
from migrate.rules.rule import Value
from migrate.syntax import nodes

_CONVERSION = re.compile(r"%(?:%|[-#0 +]*(?:\d+)?(?:\.\d+)?([a-zA-Z]))")
_NUMERIC = frozenset("diouxXeEfFgGc")


class Scalars(HeldValues):
    """Numbers of tensors, outside of what jit traces."""

    def as_scalar(self, value: Value) -> Value:
        """`x.item()` of a tensor that may have axes; anything else as it is."""
        if not isinstance(value.kind, Tensor) or self.under_jit:
            return value
        self.unit.reads_values = True
        if value.kind.rank == 0:
            return value
        return Value(nodes.call(nodes.expression("{x}.item", x=layouts.first(value))), Number())

    def formatted(self, template: cst.BaseExpression, value: Value) -> Value:
        """What `"%d of %s" % (x, y)` is given, with numbers where it wants numbers."""
        if not isinstance(template, cst.SimpleString) or not isinstance(template.evaluated_value, str):
            return value
        wanted = [letter for letter in _CONVERSION.findall(template.evaluated_value) if letter]
        if len(wanted) == 1 and not isinstance(value.node, cst.Tuple):
            return self.as_scalar(value) if wanted[0] in _NUMERIC else value
        items = value.kind.items if isinstance(value.kind, Items) else None
        if not isinstance(value.node, cst.Tuple) or items is None or len(items) != len(wanted):
            return value
        parts = [Value(node, kind) for node, kind in zip(nodes.elements(value.node), items, strict=True)]
        made = [self.as_scalar(p) if letter in _NUMERIC else p for p, letter in zip(parts, wanted, strict=True)]
        kept = zip(value.node.elements, made, strict=True)
        elements = [element.with_changes(value=part.node) for element, part in kept]
        return Value(value.node.with_changes(elements=elements), value.kind)


def is_indexed_by_numbers(value: Value) -> bool:
    """Whether a value is a list, a tuple or a string: Python's own, which numbers alone index."""
    return value.kind == Plain("str") or (isinstance(value.kind, Items) and value.kind.type in ("list", "tuple", SHAPE))
