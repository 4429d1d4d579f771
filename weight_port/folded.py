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

Shape: TypeAlias = tuple[int, ...]


class Tensor(Protocol):
    """What can be read."""

    @property
    def info(self) -> TensorInfo: ...

    def read(self) -> np.ndarray: ...

    def release(self) -> None: ...


@dataclass(frozen=True)
class Folded:
    """A weight that is computed from its parts when it is read, in float64, and rounded once."""

    info: TensorInfo
    parts: tuple[Tensor, ...]
    compute: Callable[..., np.ndarray]

    def read(self) -> np.ndarray:
        """The plain weight, in memory."""
        return self.compute(*(part.read().astype(np.float64) for part in self.parts)).astype(self.info.dtype)

    def release(self) -> None:
        for part in self.parts:
            part.release()


Found: TypeAlias = tuple[str, tuple[str, ...], Folded]


def folded(stored: Mapping[str, Tensor], expected: Iterable[str] | None) -> Iterator[Found]:
    """The weights that can be folded, each with the keys of its parts. expected: names that are asked for, which says
    what to fold; None folds everything. Where the shapes do not tell how, nothing is folded."""
    wanted = None if expected is None else Lookup((name, name) for name in expected)
    for key in stored:
        for first, others, compute, applies in _FORMS:
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
                yield name, keys, Folded(parts[0].info, parts, compute)


def _normed(v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """``g * v / |v|``, the norm over all axes but those along which g goes."""
    axes = tuple(axis for axis in range(v.ndim) if g.ndim == 0 or g.shape[axis] == 1)
    return v * (g / np.sqrt(np.square(v).sum(axes, keepdims=True)))


def _spectral(weight: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """``weight / (u weight v)``, as torch computes it outside of training."""
    axis = _axis(weight.shape, u.shape)
    assert axis is not None
    matrix = np.moveaxis(weight, axis, 0).reshape(len(u), -1)
    return weight / (u @ matrix @ v)


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
_FORMS: tuple[tuple[str, tuple[str, ...], Callable[..., np.ndarray], Callable[..., bool]], ...] = (
    ("weight_v", ("weight_g",), _normed, _fits_norm),
    ("parametrizations.weight.original1", ("parametrizations.weight.original0",), _normed, _fits_norm),
    ("weight_orig", ("weight_u", "weight_v"), _spectral, _fits_spectral),
    (
        "parametrizations.weight.original",
        ("parametrizations.weight.0._u", "parametrizations.weight.0._v"),
        _spectral,
        _fits_spectral,
    ),
)
