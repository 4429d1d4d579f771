"""Flax's msgpack, read where it lies: the arrays are views of the mapped file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from weight_port.dtypes import DTYPES
from weight_port.errors import fail
from weight_port.names import joined
from weight_port.regions import Region, Stored, TensorInfo, contiguous, foreign, map_file, place
from weight_port.room import room_for

DEPTH = 64  # of maps in maps
CHUNKED = "__msgpack_chunked_array__"
_ARRAYS = (1, 3)  # flax's extensions: an array, a numpy scalar
_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCA: ">f", 0xCB: ">d"}
_NUMBERS |= dict(zip(range(0xCC, 0xD4), (">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True))
# the codes of what has a length: of one byte (maps and lists have no such), of two, of four
_TEXT, _BYTES, _EXTENSION = (0xD9, 0xDA, 0xDB), (0xC4, 0xC5, 0xC6), (0xC7, 0xC8, 0xC9)
_LIST, _MAP = (0xDC, 0xDD), (0xDE, 0xDF)


@dataclass(frozen=True)
class Chunked:
    """An array that flax has split because it is large: put together when it is read."""

    info: TensorInfo
    chunks: tuple[Stored, ...]

    def read(self) -> np.ndarray:
        """The whole array."""
        out, start = room_for(self.info), 0
        flat = out.reshape(-1)
        for chunk in self.chunks:
            part = chunk.read().reshape(-1)
            flat[start : start + part.size] = part
            start += part.size
            chunk.release()
        return out


@dataclass(frozen=True)
class _Bytes:
    start: int
    stop: int


def is_msgpack(path: Path) -> bool:
    """Whether a file begins as a tree that flax.serialization wrote: its checkpoints have no ending."""
    try:
        with open(path, "rb") as file:
            head = file.read(9)
    except OSError:
        return False
    return (b"\x81" <= head[:1] <= b"\x8f" or head[:1] in (b"\xde", b"\xdf")) and head[5:] != b"\0\0\0{"  # safetensors


def read_msgpack(path: Path) -> tuple[dict[str, TensorInfo], Callable[[str], np.ndarray]]:
    """Shapes and types by name, and a function that reads one array. Raises PortError WPT001 or WPT003."""
    file = map_file(path)
    try:
        reader = _Reader(file)
        tree = reader.value()
        if reader.at != len(file):
            raise ValueError(f"{len(file) - reader.at} bytes follow its end")
        found = _arrays(tree, "")
        if tree and not found:
            raise ValueError("it holds no arrays")
    except (ValueError, TypeError, KeyError, IndexError, struct.error) as error:
        fail("WPT003", f"{path} is damaged, or not a tree of arrays that flax.serialization wrote: {error}")
    return {name: array.info for name, array in found.items()}, lambda name: found[name].read()


@dataclass(frozen=True)
class _Number:
    """A number of Python's, as an array without axes."""

    value: np.ndarray

    @property
    def info(self) -> TensorInfo:
        return TensorInfo((), self.value.dtype)

    def read(self) -> np.ndarray:
        return self.value


class _Reader:
    """A place in a mapped file, and what is read there."""

    def __init__(self, file: mmap.mmap) -> None:
        self.file, self.at, self.depth = file, 0, 0

    def value(self) -> Any:
        """The next value: a dict, a list, a text, a number, an array as `Stored`, bytes by their place."""
        code = self._take(1)[0]
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 256
        if code in _PLAIN:
            return _PLAIN[code]
        if code in _NUMBERS:
            return struct.unpack(_NUMBERS[code], self._take(struct.calcsize(_NUMBERS[code])))[0]
        if code < 0xC0:  # the length is in the code
            read, length = (self._text, code & 31) if code >= 0xA0 else (self._list, code & 15)
            return self._map(code & 15) if code < 0x90 else read(length)
        if 0xD4 <= code <= 0xD8:
            return self._extension(2 ** (code - 0xD4))
        for codes, read in ((_TEXT, self._text), (_BYTES, self._bytes), (_EXTENSION, self._extension),
                            (_LIST, self._list), (_MAP, self._map)):  # fmt: skip
            if code in codes:
                return read(int.from_bytes(self._take(2 ** (code - codes[-1] + 2)), "big"))
        raise ValueError(f"a value of the kind 0x{code:02X}")

    def _take(self, count: int) -> bytes:
        if self.at + count > len(self.file):
            raise ValueError("it ends too early")
        self.at += count
        return self.file[self.at - count : self.at]

    def _text(self, length: int) -> str:
        return self._take(length).decode()

    def _bytes(self, length: int) -> _Bytes:
        if self.at + length > len(self.file):
            raise ValueError("it ends too early")
        self.at += length
        return _Bytes(self.at - length, self.at)

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            raise ValueError(f"more than {DEPTH} maps and lists in each other")

    def _list(self, length: int) -> list[Any]:
        self._deeper()
        made = [self.value() for _ in range(length)]
        self.depth -= 1
        return made

    def _map(self, length: int) -> dict[str, Any]:
        self._deeper()
        made: dict[str, Any] = {}
        for _ in range(length):
            key = self.value()
            if not isinstance(key, str | int):
                raise ValueError(f"a {type(key).__name__} names an entry")
            if str(key) in made:
                raise ValueError(f"the name {key!r} stands twice")
            made[str(key)] = self.value()
        self.depth -= 1
        return made

    def _extension(self, length: int) -> Stored:
        kind = self._take(1)[0]
        if kind not in _ARRAYS:
            raise ValueError(f"an entry of the kind {kind}")
        end = self.at + length
        entry = self.value()
        if self.at != end or not isinstance(entry, list):
            raise ValueError("an array is not as long as it says")
        shape, name, data = entry
        if not isinstance(data, _Bytes) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 64:
            raise ValueError(f"an array has the shape {shape}")
        if name not in DTYPES:
            raise ValueError(f"an array has the type {name!r}")
        info = TensorInfo(tuple(shape), DTYPES[name])
        if data.stop - data.start != info.nbytes:
            raise ValueError(f"an array {info.shape} of {name} has {data.stop - data.start} bytes")
        strides = tuple(s // info.dtype.itemsize for s in contiguous(info))
        return place("an array", info, Region(self.file, data.start, info.nbytes, foreign("little")), 0, strides)


def _arrays(node: Any, path: str) -> dict[str, Stored | Chunked | _Number]:
    if isinstance(node, Stored):
        return {path: node}
    if isinstance(node, bool | int | float) and path:
        return {path: _Number(np.asarray(node))}
    if isinstance(node, str | None) and path:
        return {}  # a text beside the arrays
    if not isinstance(node, dict):
        raise ValueError(f"{path or 'its top'} is a {type(node).__name__}, not an array")
    if CHUNKED in node:
        return {path: _chunked(node)}
    found: dict[str, Stored | Chunked | _Number] = {}
    for key, child in node.items():
        inner = joined((key,))
        found |= _arrays(child, f"{path}/{inner}" if path else inner)
    return found


def _chunked(node: Mapping[str, Any]) -> Chunked:
    chunks = tuple(node["chunks"][str(i)] for i in range(len(node["chunks"])))
    shape = tuple(node["shape"][str(i)] for i in range(len(node["shape"])))
    if not chunks or not all(
        isinstance(chunk, Stored) and chunk.info.dtype == chunks[0].info.dtype for chunk in chunks
    ):
        raise ValueError("the pieces of an array are not arrays of one type")
    if not all(type(n) is int for n in shape) or sum(prod(chunk.info.shape) for chunk in chunks) != prod(shape):
        raise ValueError(f"the pieces of an array do not make up {shape}")
    return Chunked(TensorInfo(shape, chunks[0].info.dtype), chunks)
