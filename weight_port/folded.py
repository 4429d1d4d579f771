"""Weights that torch keeps in parts (weight_norm, spectral_norm), folded into the plain weight that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Protocol, TypeAlias

import numpy as np

from weight_port.dtypes import is_float
from weight_port.names import Lookup
from weight_port.regions import TensorInfo
from weight_port.room import room_for

Shape: TypeAlias = tuple[int, ...]
Factor: TypeAlias = Callable[..., np.ndarray]


class Tensor(Protocol):
    """What can be read."""

    @property
    def info(self) -> TensorInfo: ...

    def read(self) -> np.ndarray: ...

    def release(self) -> None: ...


@dataclass(frozen=True)
class Folded:
    """A weight that is computed from its parts when it is read: the first, times a factor that all of them give.

    In float64, rounded once, some rows at a time.
    """

    info: TensorInfo
    parts: tuple[Tensor, ...]
    factor: Factor

    def read(self) -> np.ndarray:
        """The plain weight."""
        whole, *others = (part.read() for part in self.parts)
        out = room_for(self.info)
        with np.errstate(all="ignore"):  # a norm of zero gives what it gives in torch
            factor = np.broadcast_to(self.factor(whole, *(other.astype(np.float64) for other in others)), whole.shape)
            for rows in _rows(whole):
                out[rows] = whole[rows].astype(np.float64) * factor[rows]
        return out

    def release(self) -> None:
        for part in self.parts:
            part.release()


Found: TypeAlias = tuple[str, tuple[str, ...], Folded]
_ROWS = 2**20  # elements that are in memory as float64 at a time


def _rows(array: np.ndarray) -> Iterator[slice]:
    """Parts along the first axis."""
    step = max(1, _ROWS * len(array) // max(array.size, 1))
    return (slice(start, start + step) for start in range(0, len(array), step))


def folded(stored: Mapping[str, Tensor], expected: Iterable[str] | None) -> Iterator[Found]:
    """The weights that can be folded, each with the keys of its parts. expected: names that are asked for, which says
    what to fold; None folds everything. Where the shapes do not tell how, nothing is folded."""
    wanted = None if expected is None else Lookup((name, name) for name in expected)
    for key in stored:
        for first, others, factor, applies in _FORMS:
            prefix = key.removesuffix(first)
            if prefix == key or (prefix and not prefix.endswith(".")):
                continue
            name, keys = f"{prefix}weight", (key, *(prefix + other for other in others))
            asked = name not in stored and (wanted is None or any(wanted.find(name)))
            if not asked or not all(key in stored for key in keys):
                continue
            parts = tuple(stored[key] for key in keys)
            floats = all(is_float(part.info.dtype) for part in parts)
            if floats and applies(*(part.info.shape for part in parts)):
                yield name, keys, Folded(parts[0].info, parts, factor)


def _by_norm(v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """``g / |v|``, the norm over all axes but those along which g goes."""
    axes = tuple(axis for axis in range(v.ndim) if g.ndim == 0 or g.shape[axis] == 1)
    g = g.reshape(g.shape or (1,) * v.ndim)
    squares = np.zeros(g.shape)
    for rows in _rows(v):
        here = squares if len(g) == 1 else squares[rows]
        here += np.square(v[rows].astype(np.float64)).sum(axes, keepdims=True)
    return g / np.sqrt(squares)


def _by_spectrum(weight: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """``1 / (u weight v)``, as torch computes it outside of training: the weight as a matrix of u's rows."""
    axis = _axis(weight.shape, u.shape)
    assert axis is not None
    others = v.reshape([length for i, length in enumerate(weight.shape) if i != axis])
    sigma = 0.0
    for rows in _rows(weight):
        part = np.moveaxis(weight[rows].astype(np.float64), axis, 0)
        left, right = (u[rows], others) if axis == 0 else (u, others[rows])
        sigma += left @ part.reshape(len(left), -1) @ right.reshape(-1)
    return np.asarray(1 / np.asarray(sigma))


def _fits_norm(v: Shape, g: Shape) -> bool:
    return g == () or (len(g) == len(v) and all(n in (1, m) for n, m in zip(g, v, strict=True)))


def _fits_spectral(weight: Shape, u: Shape, v: Shape) -> bool:
    return _axis(weight, u) is not None and prod(u) * prod(v) == prod(weight)


def _axis(shape: Shape, u: Shape) -> int | None:
    """The axis of the outputs, along which u goes: the second in a transposed convolution; None where either could be
    it."""
    fits = [axis for axis in ((0,) if len(shape) == 2 else (0, 1)) if u == shape[axis : axis + 1]]
    return fits[0] if len(fits) == 1 else None


# the names of the parts, as torch wrote them before its parametrisations and since
_FORMS: tuple[tuple[str, tuple[str, ...], Factor, Callable[..., bool]], ...] = (
    ("weight_v", ("weight_g",), _by_norm, _fits_norm),
    ("parametrizations.weight.original1", ("parametrizations.weight.original0",), _by_norm, _fits_norm),
    ("weight_orig", ("weight_u", "weight_v"), _by_spectrum, _fits_spectral),
    (
        "parametrizations.weight.original",
        ("parametrizations.weight.0._u", "parametrizations.weight.0._v"),
        _by_spectrum,
        _fits_spectral,
    ),
)
