"""What is inside a value: the kind of an element, an item, a part."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate import nodes
from migrate.kinds import (
    UNKNOWN,
    ClassNode,
    Host,
    Items,
    Kind,
    ListNode,
    Module,
    Number,
    Parameters,
    Plain,
    Tensor,
    Weight,
    join,
)
from migrate.rules.rule import Value


def part_kind(kind: Kind, number: int, count: int) -> Kind:
    """The kind of one element of an unpacked value."""
    if isinstance(kind, Items):
        if kind.items is not None and len(kind.items) == count:
            return kind.items[number]
        return kind.joined()
    if isinstance(kind, Host):
        return Host("tensor", kind.origin) if kind.what in ("batch", "tensor") else Host("data")
    if isinstance(kind, Tensor):
        return replace(kind, rank=kind.rank - 1 if kind.rank > 0 else -1)
    return UNKNOWN


def loop_kind(kind: Kind, origin: int) -> Kind:
    """The kind of the loop variable over a value of this kind."""
    if isinstance(kind, Items):
        return kind.joined()
    if isinstance(kind, Tensor):
        return replace(kind, rank=kind.rank - 1 if kind.rank > 0 else -1)
    if isinstance(kind, Host):
        return Host("batch", origin)
    if isinstance(kind, Module):
        return element_kind(kind)
    if isinstance(kind, Parameters):
        return Items((Plain("str"), Weight()), type="tuple") if kind.named else Weight()
    return UNKNOWN


def element_kind(kind: Module) -> Kind:
    """What is taken out of a ModuleList or a Sequential."""
    made: Kind = UNKNOWN
    for option in kind.options:
        if isinstance(option, ListNode):
            for child in option.children:
                entry = "first" if isinstance(child, ClassNode) else kind.entry
                element = Module((child,), entry, "first" if isinstance(child, ClassNode) else kind.exit, kind.rank)
                made = element if made is UNKNOWN else join(made, element)
    return made


def item_kind(kind: Kind, node: cst.Subscript, indices: list[Value | None]) -> Kind:
    """The kind of `x[...]`."""
    if isinstance(kind, Tensor):
        rank = kind.rank
        for index in indices:
            if index is not None and rank >= 0:
                plain = isinstance(index.kind, Number)
                rank = rank - 1 if plain else rank if isinstance(index.kind, Tensor) and index.kind.rank == 1 else -1
        if any(nodes.is_literal(index.node, None) for index in indices if index is not None):
            rank = -1
        return replace(kind, rank=rank, optional=False)
    if isinstance(kind, Host):
        return Host("tensor", kind.origin) if kind.what in ("tensor", "batch") else Host("tensor")
    if isinstance(kind, Items):
        number = nodes.literal(node.slice[0].slice.value) if isinstance(node.slice[0].slice, cst.Index) else ...
        if isinstance(number, int) and kind.items is not None and -len(kind.items) <= number < len(kind.items):
            return kind.items[number]
        return Items(None, kind.joined(), kind.type) if number is ... and indices[0] is None else kind.joined()
    if isinstance(kind, Module):
        return element_kind(kind)
    return UNKNOWN


def kinds_in(kind: Kind) -> list[Kind]:
    """A kind and, for lists and tuples, what they hold."""
    if isinstance(kind, Items):
        inner = kind.items if kind.items is not None else (kind.element,)
        return [part for item in inner for part in kinds_in(item)]
    return [kind]
