"""Where the channels of a value are, and how two values come to agree.

Tensors that the user's code can see keep torch's channel-first order. A layer that wants channels last gets a move
before it and one after it; since a value carries its layout with it, moves that would meet are never written.
"""

from __future__ import annotations

from dataclasses import replace

from migrate.diagnostics import Unsupported
from migrate.known.constructed import rank_after
from migrate.known.kinds import UNKNOWN, Kind, Module, Number, Tensor
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.targets import linen


def rank(value: Value) -> int:
    """The rank of a value, 0 where it is no tensor or has no known rank."""
    return value.kind.rank if isinstance(value.kind, Tensor) and value.kind.rank > 0 else 0


def first(value: Value) -> Expr:
    """The node of a value with its channels on axis 1, as torch has it."""
    return linen.channels_first(value.node, rank(value)) if value.layout == "last" else value.node


def last(value: Value, wanted_rank: int) -> Expr:
    """The node of a value with its channels on the last axis."""
    return value.node if value.layout == "last" else linen.channels_last(value.node, wanted_rank)


def enter(value: Value, module: Module) -> Value:
    """The input of a module, moved to where the module wants the channels; an elementwise one takes what comes. Raises
    Unsupported for an input that is known to have other axes: torch takes one without a batch, or warns."""
    if module.entry == "last":
        if rank(value) and module.rank and rank(value) != module.rank:
            raise Unsupported("MIG302", f"an input of {rank(value)} axes, where {module.rank} are expected")
        node = last(value, module.rank)
        return Value(node, with_rank(value, module.rank), "last")
    if module.entry == "any":
        return value
    return Value(first(value), value.kind, "first")


def leave(module: Module, node: Expr, entered: Value) -> Value:
    """The output of a module as a value."""
    layout = entered.layout if module.exit == "any" else module.exit
    told = module.rank if module.exit == "last" else 0  # 0 where it is not known
    known = told or rank_after(module.options, rank(entered) or -1)
    return Value(node, Tensor("float", known), "last" if layout == "last" else "first")


def with_rank(value: Value, known: int) -> Tensor:
    """The kind of a value that is a tensor, of a rank that has become known (0: it has not)."""
    kind = value.kind if isinstance(value.kind, Tensor) else Tensor()
    return replace(kind, rank=known) if known else kind


def agree(values: list[Value]) -> list[Value]:
    """Values that meet in one elementwise operation: all channels last where every tensor has them last, else
    all first. What is not known may be a tensor."""
    tensors = [value for value in values if value.kind == UNKNOWN or _has_axes(value.kind)]
    if tensors and all(value.layout == "last" for value in tensors) and len({rank(v) for v in tensors}) == 1:
        return values
    return [Value(first(value), value.kind) if value.layout == "last" else value for value in values]


def _has_axes(kind: Kind) -> bool:
    return isinstance(kind, Tensor) and kind.rank != 0


def length(value: Value, axis: int) -> Value | None:
    """`x.shape[axis]` of a value whose channels are last: the length is looked up where the axis is now."""
    known = rank(value)
    if value.layout != "last" or not known:
        return None
    axis %= known
    moved = 0 if axis == 0 else known - 1 if axis == 1 else axis - 1
    return Value(nodes.expression("{x}.shape[{axis}]", x=value.node, axis=moved), Number())
