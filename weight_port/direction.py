"""What differs between the way there, from torch keys to Flax leaves, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from migrate.layers.moves import Move, Piece, Shape, agree, inverse, shape_after, shapes_between, show
from migrate.manifest import Leaf
from weight_port.dtypes import DTYPES, DtypeRule, is_float
from weight_port.errors import Misfit
from weight_port.regions import TensorInfo

_Convert: TypeAlias = Callable[[Leaf, str, TensorInfo], tuple[tuple[Move, ...], TensorInfo]]


@dataclass(frozen=True)
class Direction:
    """What differs between the way there and the way back. ``shape``: a source's, None where its rank is not known."""

    source: Callable[[Leaf], str]
    target: Callable[[Leaf], str]
    shape: Callable[[Leaf], Shape | None]
    whole_shape: Callable[[Leaf], Shape | None]  # of the target
    take: Callable[[Leaf], tuple[Piece, ...]]
    put: Callable[[Leaf], tuple[Piece, ...]]
    affine: Callable[[Leaf], tuple[float, float]]
    convert: _Convert
    whole: str  # what the sources are called in messages


def to_flax(dtype: np.dtype | DtypeRule | None) -> Direction:
    """From torch keys to Flax leaves."""
    rule = _rule(dtype)
    return Direction(
        source=lambda leaf: leaf.torch,
        target=lambda leaf: leaf.flax,
        shape=lambda leaf: _between(leaf)[0] if not leaf.take else leaf.torch_shape,
        whole_shape=lambda leaf: leaf.shape,
        take=lambda leaf: leaf.take,
        put=lambda leaf: leaf.put,
        affine=lambda leaf: (leaf.scale, leaf.shift),
        convert=lambda leaf, target, info: _forwards(leaf, info, rule(target)),
        whole="checkpoint",
    )


def to_torch(dtype: np.dtype | DtypeRule | None) -> Direction:
    """And back."""
    rule = _rule(dtype)
    return Direction(
        source=lambda leaf: leaf.flax,
        target=lambda leaf: leaf.torch,
        shape=lambda leaf: _between(leaf)[-1] if not leaf.put else leaf.shape,
        whole_shape=lambda leaf: leaf.torch_shape,
        take=lambda leaf: leaf.put,
        put=lambda leaf: leaf.take,
        affine=lambda leaf: (1 / leaf.scale, 0 - leaf.shift / leaf.scale),
        convert=lambda leaf, target, info: _backwards(leaf, info, rule(target)),
        whole="Flax file",
    )


def _rule(dtype: np.dtype | DtypeRule | None) -> DtypeRule:
    if dtype is None or isinstance(dtype, np.dtype):
        return lambda name: dtype
    return dtype


def _between(leaf: Leaf) -> list[Shape | None]:
    return shapes_between(leaf.moves, leaf.taken_shape, leaf.moved_shape)


def _forwards(leaf: Leaf, info: TensorInfo, wanted: np.dtype | None) -> tuple[tuple[Move, ...], TensorInfo]:
    after, expected = _shape_after(leaf.moves, info), leaf.moved_shape
    if expected is not None and not agree(after, expected):
        moved = f", which becomes {show(after)}" if leaf.moves else ""
        raise Misfit("WPT103", f"it has the shape {show(info.shape)}{moved}; the manifest says {show(expected)}")
    return leaf.moves, TensorInfo(after, _dtype(leaf, info.dtype, wanted))


def _backwards(leaf: Leaf, info: TensorInfo, wanted: np.dtype | None) -> tuple[tuple[Move, ...], TensorInfo]:
    expected = leaf.moved_shape
    if expected is not None and not agree(info.shape, expected):
        raise Misfit("WPT103", f"it has the shape {show(info.shape)}; the manifest says {show(expected)}")
    try:
        back = inverse(leaf.moves, leaf.taken_shape, info.shape)
    except ValueError as error:
        raise Misfit("WPT107", str(error)) from None
    return back, TensorInfo(_shape_after(back, info), wanted if wanted and is_float(info.dtype) else info.dtype)


def _shape_after(moves: tuple[Move, ...], info: TensorInfo) -> tuple[int, ...]:
    try:
        after = shape_after(moves, info.shape)
    except ValueError as error:
        raise Misfit("WPT103", f"it has the shape {show(info.shape)}, and {error}") from None
    return tuple(length for length in after if length is not None)  # moves of a known shape leave none unknown


def _dtype(leaf: Leaf, stored: np.dtype, wanted: np.dtype | None) -> np.dtype:
    """The type of the leaf: the caller's for floating-point leaves, then the manifest's, then as stored."""
    if wanted is not None and is_float(stored):
        return wanted
    if leaf.dtype is None:
        return stored
    if leaf.dtype not in DTYPES:
        raise Misfit("WPT103", f"the manifest's dtype {leaf.dtype!r} is not one of {', '.join(DTYPES)}")
    named = DTYPES[leaf.dtype]
    if is_float(named) != is_float(stored) or (named.kind == "c") != (stored.kind == "c"):
        raise Misfit("WPT103", f"it has the type {stored}; the manifest says {leaf.dtype}")
    return named
