"""What is to be written: names, shapes and types, and the bytes of each in row-major order, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from weight_port.regions import TensorInfo
from weight_port.views import slabs

Window: TypeAlias = tuple[slice, ...]
Stream: TypeAlias = Callable[[str, Window | None], Iterator[np.ndarray]]


@dataclass(frozen=True)
class Outputs:
    """``stream(name, window)`` gives flat arrays, each good until the next is asked for; window None: the whole.

    ``same_as`` names tensors that are one with another (tied); they stream the same bytes. ``empty``: maps without
    anything in them, for formats that keep those. ``plain``: numbers and texts by name, which msgpack keeps as such.
    """

    infos: Mapping[str, TensorInfo]
    stream: Stream
    same_as: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    plain: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], same_as: Mapping[str, str] | None = None) -> Outputs:
        """Arrays that are in memory."""
        infos = {name: TensorInfo(array.shape, array.dtype) for name, array in arrays.items()}
        return cls(
            infos, lambda name, window: slabs(arrays[name] if window is None else arrays[name][window]), same_as or {}
        )

    def whole(self, name: str) -> np.ndarray:
        """The tensor in memory."""
        info = self.infos[name]
        out, start = np.empty(info.shape, info.dtype), 0
        flat = out.reshape(-1)
        for part in self.stream(name, None):
            flat[start : start + part.size] = part
            start += part.size
        return out

    @property
    def nbytes(self) -> int:
        return sum(info.nbytes for info in self.infos.values())
