"""Where a piece lies in its whole, and whether the pieces fill it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from migrate.layers.moves import Add, Piece, Shape, Slice, Stack

Index: TypeAlias = tuple[int | slice, ...]  # one entry for each axis of the whole; empty for all of it


def index_of(pieces: Sequence[Piece], numbers: Mapping[str, str], shape: Sequence[int]) -> Index:
    """The numpy index of a piece of a piece of an array of ``shape``; ``numbers`` are those of the wildcards.

    >>> index_of((Stack(1, "0"), Slice(0, 2, 4)), {"0": "5"}, (8, 6, 3))
    (slice(2, 4, None), 5, slice(0, 3, None))
    """
    if not pieces:
        return ()
    index: list[int | slice] = [slice(0, length) for length in shape]
    axes = list(range(len(shape)))  # those that are left, in the whole's numbering
    for piece in pieces:
        if isinstance(piece, Add):
            continue
        axis = axes[piece.axis]
        if isinstance(piece, Stack):
            index[axis] = int(numbers[piece.index])
            axes.remove(axis)
            continue
        part = index[axis]
        assert isinstance(part, slice)
        start, stop = piece.bounds(part.stop - part.start)
        index[axis] = slice(part.start + start, part.start + stop)
    return tuple(index)


def whole_shape(
    shape: Sequence[int], pieces: Sequence[Sequence[Piece]], numbers: Sequence[Mapping[str, str]], known: Shape | None
) -> tuple[int, ...] | None:
    """The shape of what equally shaped pieces make up, None where they do not tell; ``known`` is the manifest's.

    >>> whole_shape((2, 3), [(Stack(0, "0"),)] * 2, [{"0": "0"}, {"0": "1"}], None)
    (2, 2, 3)
    """
    found: Shape = tuple(shape)
    for level in range(len(pieces[0]) - 1, -1, -1):
        piece = pieces[0][level]
        found = piece.whole(found)
        if isinstance(piece, Stack):
            length = 1 + max(int(ids[p.index]) for p, ids in _at(pieces, numbers, level) if isinstance(p, Stack))
        elif isinstance(piece, Slice):
            length = max(p.stop for p, _ in _at(pieces, numbers, level) if isinstance(p, Slice))
        else:
            continue
        found = (*found[: piece.axis], length, *found[piece.axis + 1 :])
    if known is not None and len(known) == len(found):
        found = tuple(f if k is None else k for k, f in zip(known, found, strict=True))
    lengths = tuple(length for length in found if length is not None)
    return lengths if len(lengths) == len(found) else None


def _at(pieces: Sequence[Sequence[Piece]], numbers: Sequence[Mapping[str, str]], level: int):
    return [(p[level], ids) for p, ids in zip(pieces, numbers, strict=True) if level < len(p)]


def covers(indices: Sequence[Index], shape: Sequence[int]) -> bool:
    """Whether the pieces fill an array of ``shape``, each place once."""
    if any(not index for index in indices) or 0 in shape:
        return len(indices) == 1 or 0 in shape
    spans = [[_span(entry) for entry in index] for index in indices]
    edges = [sorted({0, length, *(e for s in spans for e in s[axis])}) for axis, length in enumerate(shape)]
    if any(e[0] < 0 or e[-1] != length for e, length in zip(edges, shape, strict=True)):
        return False
    cells = [{edge: i for i, edge in enumerate(axis)} for axis in edges]
    if prod(len(axis) - 1 for axis in edges) > 10**7:  # no set of pieces that anybody would write
        return False
    count = np.zeros([len(axis) - 1 for axis in edges], np.uint16)
    for span in spans:
        count[tuple(slice(cell[a], cell[b]) for cell, (a, b) in zip(cells, span, strict=True))] += 1
    return bool((count == 1).all())


def _span(entry: int | slice) -> tuple[int, int]:
    return (entry, entry + 1) if isinstance(entry, int) else (entry.start, entry.stop)
