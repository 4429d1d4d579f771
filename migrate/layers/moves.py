"""Moves: how the axes of a torch weight become those of the Flax leaf. Pure data, standard library only.

A move is written in one direction, torch to Flax; the way back is derived. A shape is a tuple of ints in which
``None`` stands for a length that is not known before the weights are seen.

>>> move = Permute((2, 3, 1, 0))                # Conv2d: (out, in, height, width) -> (height, width, in, out)
>>> move.shape((32, 1, 3, 3))
(3, 3, 1, 32)
>>> move.inverse((32, 1, 3, 3))
Permute(axes=(3, 2, 0, 1))
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Shape: TypeAlias = tuple[int | None, ...]


def size(shape: Shape) -> int | None:
    """Number of elements, or None where a length is not known (an empty axis makes it 0 whatever the others are)."""
    if 0 in shape:
        return 0
    known = [length for length in shape if length is not None]
    return math.prod(known) if len(known) == len(shape) else None


def agree(one: Shape, other: Shape) -> bool:
    """Whether two shapes can be the same: equal rank, and equal lengths wherever both are known."""
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def show(shape: Shape | None) -> str:
    """A shape as a reader writes it: ``(3, 3, ?, 32)``, one axis as ``(16,)``; an unknown rank is ``(...)``."""
    if shape is None:
        return "(...)"
    lengths = ["?" if length is None else str(length) for length in shape]
    return f"({lengths[0]},)" if len(lengths) == 1 else f"({', '.join(lengths)})"


@dataclass(frozen=True)
class Permute:
    """Axis ``i`` of the result is axis ``axes[i]`` of the input, as in ``numpy.transpose``.

    ``axes`` names every axis once.
    """

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.axes) != list(range(len(self.axes))):
            raise ValueError(f"permute needs each of the axes 0 to {len(self.axes) - 1} once, not {list(self.axes)}")

    def shape(self, shape: Shape) -> Shape:
        """The shape after the move. Raises ValueError when the rank is another."""
        if len(shape) != len(self.axes):
            raise ValueError(f"permute {list(self.axes)} needs {len(self.axes)} axes, the shape is {show(shape)}")
        return tuple(shape[axis] for axis in self.axes)

    def before(self, shape: Shape) -> Shape | None:
        """The shape before the move, from the one after it."""
        return self.inverse(shape).shape(shape)

    def inverse(self, shape: Shape) -> Permute:
        """The move back; ``shape``, that of the input, does not matter here."""
        return Permute(tuple(sorted(range(len(self.axes)), key=self.axes.__getitem__)))

    def to_json(self) -> list[str | int]:
        return ["permute", *self.axes]


@dataclass(frozen=True)
class Reshape:
    """The same elements in row-major order under other lengths; one of ``dims`` may be -1, "what is left over".

    The input shape cannot be told from the output's: going back needs it from elsewhere (``Leaf.torch_shape``).
    """

    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(length < -1 for length in self.dims) or self.dims.count(-1) > 1:
            raise ValueError(f"reshape needs lengths of 0 or more, and at most one -1, not {list(self.dims)}")

    def shape(self, shape: Shape) -> Shape:
        """The shape after the move. Raises ValueError when the number of elements cannot be the same."""
        count, fixed = size(shape), math.prod(length for length in self.dims if length != -1)
        fits = count is None or (count == fixed if -1 not in self.dims else fixed != 0 and count % fixed == 0)
        if not fits:
            raise ValueError(f"{show(shape)} has {count} elements and cannot become {list(self.dims)}")
        left_over = None if count is None else count // max(fixed, 1)
        return tuple(left_over if length == -1 else length for length in self.dims)

    def before(self, shape: Shape) -> Shape | None:
        """None: the shape before a reshape cannot be told from the one after it."""
        return None

    def inverse(self, shape: Shape) -> Reshape:
        """The move back to ``shape``, the shape before this move; at most one of its lengths may be unknown."""
        return Reshape(tuple(-1 if length is None else length for length in shape))

    def to_json(self) -> list[str | int]:
        return ["reshape", *self.dims]


@dataclass(frozen=True)
class Flip:
    """Reverses the order along each of ``axes``."""

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(axis < 0 for axis in self.axes) or len(set(self.axes)) != len(self.axes):
            raise ValueError(f"flip needs different axes counted from 0, not {list(self.axes)}")

    def shape(self, shape: Shape) -> Shape:
        """The same shape. Raises ValueError when an axis is not there."""
        if self.axes and max(self.axes) >= len(shape):
            raise ValueError(f"flip {list(self.axes)} needs an axis {max(self.axes)}, the shape is {show(shape)}")
        return shape

    def before(self, shape: Shape) -> Shape | None:
        """The shape before the move, which is the one after it."""
        return self.shape(shape)

    def inverse(self, shape: Shape) -> Flip:
        """The same move: flipping twice changes nothing."""
        return self

    def to_json(self) -> list[str | int]:
        return ["flip", *self.axes]


Move: TypeAlias = Permute | Reshape | Flip
KINDS: dict[str, type[Permute] | type[Reshape] | type[Flip]] = {"permute": Permute, "reshape": Reshape, "flip": Flip}


def from_json(data: object) -> Move:
    """The move written as ``["permute", 1, 0]``.

    Raises ValueError that says what is wrong, with the nearest known name.
    """
    if isinstance(data, str) and data.startswith("undecided"):
        raise ValueError(f"a draft that is to be finished: {data}")
    if not isinstance(data, list) or not data or not isinstance(data[0], str):
        raise ValueError('a move is a list that starts with its name, such as ["permute", 1, 0]')
    name, *numbers = data
    if name not in KINDS:
        near = difflib.get_close_matches(name, KINDS, n=1)
        raise ValueError(
            f"unknown move {name!r}, did you mean {near[0]!r}?"
            if near
            else f"unknown move {name!r}, known are {', '.join(map(repr, KINDS))}"
        )
    if not all(type(number) is int for number in numbers):
        raise ValueError(f"{name} takes whole numbers, not {numbers}")
    return KINDS[name](tuple(numbers))


# --- parts: which piece of a tensor takes part ------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """The ``index``-th of ``count`` equal parts along ``axis``, counted from 0.

    >>> Part(0, 2, 3).cut((12, 4))                  # the value projection of a fused query, key, value
    (4, 4)
    """

    axis: int
    index: int
    count: int

    def __post_init__(self) -> None:
        if self.axis < 0 or not 0 <= self.index < self.count:
            raise ValueError(f"part needs an axis, an index and a count above it, not {self.to_json()[1:]}")

    def cut(self, shape: Shape) -> Shape:
        """The shape of the part. Raises ValueError when the axis is not there or does not divide."""
        length = _length(self, shape)
        if length is not None and length % self.count:
            raise ValueError(f"{show(shape)} has no {self.count} equal parts along axis {self.axis}")
        return _with(shape, self.axis, None if length is None else length // self.count)

    def whole(self, shape: Shape) -> Shape:
        """The shape of the whole, from the part's."""
        length = _length(self, shape)
        return _with(shape, self.axis, None if length is None else length * self.count)

    def bounds(self, length: int) -> tuple[int, int]:
        """Where the part begins and ends in an axis of this length."""
        return length // self.count * self.index, length // self.count * (self.index + 1)

    def to_json(self) -> list[str | int]:
        return ["part", self.axis, self.index, self.count]


@dataclass(frozen=True)
class Slice:
    """The places from ``start`` up to ``stop`` along ``axis``: parts of different lengths."""

    axis: int
    start: int
    stop: int

    def __post_init__(self) -> None:
        if self.axis < 0 or not 0 <= self.start < self.stop:
            raise ValueError(f"slice needs an axis, a start and a stop above it, not {self.to_json()[1:]}")

    def cut(self, shape: Shape) -> Shape:
        """The shape of the part. Raises ValueError when it reaches outside."""
        length = _length(self, shape)
        if length is not None and self.stop > length:
            raise ValueError(f"{show(shape)} has no place {self.stop} along axis {self.axis}")
        return _with(shape, self.axis, self.stop - self.start)

    def whole(self, shape: Shape) -> Shape:
        """The shape of the whole, from the part's; how far it goes beyond the part is not known."""
        return _with(shape, self.axis, None)

    def bounds(self, length: int) -> tuple[int, int]:
        return self.start, self.stop

    def to_json(self) -> list[str | int]:
        return ["slice", self.axis, self.start, self.stop]


@dataclass(frozen=True)
class Stack:
    """One place along a new ``axis``: that with the number which the wildcard ``index`` stands for.

    Layers that are scanned over have their weights stacked so.
    """

    axis: int
    index: str

    def __post_init__(self) -> None:
        if self.axis < 0 or not self.index.isdecimal():
            raise ValueError(f'stack needs an axis and a wildcard such as "{{0}}", not {self.to_json()[1:]}')

    def cut(self, shape: Shape) -> Shape:
        """The shape of the part: one axis less."""
        _length(self, shape)
        return shape[: self.axis] + shape[self.axis + 1 :]

    def whole(self, shape: Shape) -> Shape:
        if self.axis > len(shape):
            raise ValueError(f"stack {self.axis} needs {self.axis} axes, the shape is {show(shape)}")
        return (*shape[: self.axis], None, *shape[self.axis :])

    def to_json(self) -> list[str | int]:
        return ["stack", self.axis, f"{{{self.index}}}"]


@dataclass(frozen=True)
class Add:
    """Added to what else goes there: torch has two biases in a recurrent cell where Flax has one.

    The way back gives the sum to the first and zeros to the others.
    """

    def cut(self, shape: Shape) -> Shape:
        return shape

    def whole(self, shape: Shape) -> Shape:
        return shape

    def to_json(self) -> list[str | int]:
        return ["add"]


Piece: TypeAlias = Part | Slice | Stack | Add
PIECES: dict[str, type[Part] | type[Slice] | type[Stack] | type[Add]] = {
    "part": Part, "slice": Slice, "stack": Stack, "add": Add,
}  # fmt: skip


def piece_from_json(data: object) -> Piece:
    """The piece written as ``["part", 0, 2, 3]``. Raises ValueError that says what is wrong."""
    forms = '["part", axis, index, count], ["slice", axis, start, stop], ["stack", axis, "{0}"] or ["add"]'
    if not isinstance(data, list) or not data or data[0] not in PIECES:
        raise ValueError(f"a piece is one of {forms}")
    name, *rest = data
    numbers = rest[:1] if name == "stack" else rest
    if len(rest) != {"part": 3, "slice": 3, "stack": 2, "add": 0}[name] or not all(type(n) is int for n in numbers):
        raise ValueError(f"a piece is one of {forms}")
    if name == "stack":
        if not isinstance(rest[1], str) or not rest[1].startswith("{") or not rest[1].endswith("}"):
            raise ValueError(f"a piece is one of {forms}")
        return Stack(rest[0], rest[1][1:-1])
    return PIECES[name](*rest)


def cut(pieces: Sequence[Piece], shape: Shape | None) -> Shape | None:
    """The shape of a piece of a piece of ``shape``, None where that is not known."""
    for piece in pieces:
        shape = None if shape is None else piece.cut(shape)
    return shape


def _length(piece: Part | Slice | Stack, shape: Shape) -> int | None:
    if piece.axis >= len(shape):
        raise ValueError(f"{piece.to_json()[0]} needs an axis {piece.axis}, the shape is {show(shape)}")
    return shape[piece.axis]


def _with(shape: Shape, axis: int, length: int | None) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])


# --- sequences of moves -----------------------------------------------------------------------------------------------


def shape_after(moves: Sequence[Move], shape: Shape) -> Shape:
    """The shape after all moves. Raises ValueError at the first that does not apply."""
    for move in moves:
        shape = move.shape(shape)
    return shape


def shapes_between(moves: Sequence[Move], before: Shape | None, after: Shape | None) -> list[Shape | None]:
    """Shapes before the first move, between the moves and after the last, as far as the two ends and the moves tell.

    >>> shapes_between([Reshape((10, 32, 7, 7)), Permute((2, 3, 1, 0))], None, (7, 7, 32, 10))
    [None, (10, 32, 7, 7), (7, 7, 32, 10)]
    """
    forwards: list[Shape | None] = [before]
    for move in moves:
        known = forwards[-1]
        dims = tuple(None if d == -1 else d for d in move.dims) if isinstance(move, Reshape) else None
        forwards.append(dims if known is None else move.shape(known))
    backwards: list[Shape | None] = [after]
    for move in reversed(moves):
        known = backwards[-1]
        unknown = (None,) * len(move.axes) if isinstance(move, Permute) else None
        backwards.append(unknown if known is None else move.before(known))
    return [_merge(one, other) for one, other in zip(forwards, reversed(backwards), strict=True)]


def _merge(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None:
        return other if one is None else one
    if not agree(one, other):
        raise ValueError(f"the moves lead to {show(one)} and to {show(other)} at one and the same place")
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))


def inverse(moves: Sequence[Move], before: Shape | None, after: Shape | None) -> tuple[Move, ...]:
    """The moves that undo ``moves``; ``before`` and ``after`` are the shapes at their two ends, None where unknown.

    Raises ValueError when a reshape's input shape is not known well enough (more than one length missing).
    """
    shapes = shapes_between(moves, before, after)
    undone: list[Move] = []
    for move, shape in zip(reversed(moves), reversed(shapes[:-1]), strict=True):
        if isinstance(move, Reshape) and (shape is None or shape.count(None) > 1):
            raise ValueError(f'the shape before reshape {list(move.dims)} is {show(shape)}: state it as "torch_shape"')
        undone.append(move.inverse(shape or ()))
    return tuple(undone)
