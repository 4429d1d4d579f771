"""Bytes of a file as numpy arrays, without reading more of it than is looked at."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from weight_port.errors import fail

EXPANDED_LIMIT = 64 * 2**20  # bytes that tensors of repeated elements may claim in one checkpoint
_LARGEST = 2**56  # elements; far beyond any file, far below where numpy's arithmetic would overflow


@dataclass(frozen=True)
class TensorInfo:
    """Shape and numpy type of a tensor (bfloat16 and float8 by ml_dtypes), known without reading it."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Region:
    """``nbytes`` bytes of a mapped file, from ``start`` on; ``swapped`` where the other byte order was used."""

    file: mmap.mmap
    start: int
    nbytes: int
    swapped: bool = False


@dataclass(frozen=True)
class Stored:
    """A tensor in a region: ``offset`` in bytes from its start, ``strides`` in bytes, None where it is contiguous."""

    info: TensorInfo
    region: Region
    offset: int = 0
    strides: tuple[int, ...] | None = None

    def read(self) -> np.ndarray:
        """A read-only view of the file; a copy only where the byte order is the other one."""
        info = self.info
        if 0 in info.shape:
            return np.empty(info.shape, info.dtype)
        strides = self.strides if self.strides is not None else contiguous(info)
        view = np.ndarray(info.shape, info.dtype, self.region.file, self.region.start + self.offset, strides)
        return _swap(view) if self.region.swapped else view

    def release(self) -> None:
        """Let the system drop the file's pages that ``read`` brought in; the tensor can still be read again."""
        if not hasattr(mmap, "MADV_DONTNEED"):  # not on every system; it only saves memory
            return
        first = (self.region.start + self.offset) // mmap.PAGESIZE * mmap.PAGESIZE
        length = min(self.region.start + self.region.nbytes, len(self.region.file)) - first
        if length > 0:
            self.region.file.madvise(mmap.MADV_DONTNEED, first, length)


def map_file(path: Path) -> mmap.mmap:
    """The file, mapped read-only. Raises PortError WPT001, or WPT003 when it is empty."""
    try:
        with open(path, "rb") as file:
            if not path.stat().st_size:
                fail("WPT003", f"{path} is empty", "Fetch or save it again.")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        fail("WPT001", f"cannot open {path}: {error.strerror or error}")


def contiguous(info: TensorInfo) -> tuple[int, ...]:
    """The strides, in bytes, of a row-major array."""
    return tuple(prod(info.shape[axis + 1 :]) * info.dtype.itemsize for axis in range(len(info.shape)))


def place(name: str, info: TensorInfo, region: Region, offset: int, strides: tuple[int, ...]) -> Stored:
    """A strided tensor, offset and strides in elements, after checking that it lies in its region."""
    size = info.dtype.itemsize
    if prod(max(length, 1) for length in info.shape) > _LARGEST:
        fail("WPT003", f"{name} claims the shape {info.shape}, more than any file holds")
    last = offset + sum((n - 1) * s for n, s in zip(info.shape, strides, strict=True))
    if 0 not in info.shape and (last + 1) * size > region.nbytes:
        fail("WPT003", f"{name} {info.shape} reaches to byte {(last + 1) * size} of a block of {region.nbytes}")
    return Stored(info, region, offset * size, tuple(s * size for s in strides))


def check_expanded(tensors: Mapping[str, Stored]) -> None:
    """Refuse checkpoints in which a few bytes stand for gigabytes (stride 0)."""
    claims = {name: t.info.nbytes for name, t in tensors.items() if t.info.nbytes > t.region.nbytes - t.offset}
    if sum(claims.values()) > EXPANDED_LIMIT:
        name = max(claims, key=claims.__getitem__)
        fail("WPT006", f"{name} claims {claims[name]:,} bytes of a block of {tensors[name].region.nbytes:,}",
             "It repeats its elements (tensor.expand). Where that is meant, say --allow-expanded.")  # fmt: skip


def foreign(byteorder: str) -> bool:
    """Whether data of this byte order ("little" or "big") has to be swapped here."""
    return byteorder != sys.byteorder


def _swap(array: np.ndarray) -> np.ndarray:
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    plain = np.array(array, order="C")  # byteswap needs memory of its own
    return plain.reshape(-1).view(f"u{size}").byteswap().view(array.dtype).reshape(array.shape)
