"""Flax's msgpack: nested maps; an array is extension 1: (shape, type's name, bytes)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any

import msgpack
import numpy as np

from weight_port.msgpack_reading import CHUNKED
from weight_port.names import parts_of
from weight_port.outputs import Outputs
from weight_port.regions import TensorInfo

CHUNK = 2**30  # bytes; flax splits larger arrays


def write_msgpack(file: IO[bytes], outputs: Outputs) -> None:
    """Write the tensors as one tree, in their order, and numbers and texts as what they are."""
    tree: dict[str, Any] = {}
    for name in dict.fromkeys((*outputs.infos, *outputs.plain, *outputs.empty)):
        *parents, last = parts_of(name)
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = {} if name in outputs.empty else name
    packer = msgpack.Packer()

    def put(node: Any) -> None:
        if isinstance(node, str) and node in outputs.plain:
            file.write(packer.pack(outputs.plain[node]))
            return
        if isinstance(node, str):
            _put_array(file, packer, outputs.infos[node], outputs.stream(node, None))
            return
        file.write(packer.pack_map_header(len(node)))
        for key, child in node.items():
            file.write(packer.pack(key))
            put(child)

    put(tree)


def _put_array(file: IO[bytes], packer: msgpack.Packer, info: TensorInfo, parts: Iterator[np.ndarray]) -> None:
    if info.nbytes <= CHUNK:
        file.write(_extension_head(packer, info))
        for part in parts:
            file.write(_bytes(part))
        return
    size, length = info.nbytes // info.dtype.itemsize, max(1, CHUNK // info.dtype.itemsize)
    lengths = [min(length, size - start) for start in range(0, size, length)]
    file.write(packer.pack_map_header(3) + packer.pack(CHUNKED) + packer.pack(True))
    file.write(packer.pack("shape") + packer.pack({str(i): n for i, n in enumerate(info.shape)}))
    file.write(packer.pack("chunks") + packer.pack_map_header(len(lengths)))
    number = left = 0
    for part in parts:
        while part.size:
            if not left:
                left = lengths[number]
                file.write(packer.pack(str(number)) + _extension_head(packer, TensorInfo((left,), info.dtype)))
                number += 1
            now, part = part[:left], part[left:]
            file.write(_bytes(now))
            left -= now.size


def _bytes(part: np.ndarray) -> memoryview:
    return part.view(np.uint8).data


def _extension_head(packer: msgpack.Packer, info: TensorInfo) -> bytes:
    head = packer.pack_array_header(3) + packer.pack(info.shape) + packer.pack(info.dtype.name)
    head += _sized(info.nbytes, (0xC4, 0xC5, 0xC6))
    total = len(head) + info.nbytes
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(total)
    return (bytes([fixed]) if fixed else _sized(total, (0xC7, 0xC8, 0xC9))) + b"\x01" + head


def _sized(length: int, codes: tuple[int, int, int]) -> bytes:
    """A length in one, two or four bytes, after the code that says how many."""
    for code, form, limit in zip(codes, (">BB", ">BH", ">BI"), (2**8, 2**16, 2**32), strict=True):
        if length < limit:
            return struct.pack(form, code, length)
    raise AssertionError("arrays are split before they reach 4 GiB")
