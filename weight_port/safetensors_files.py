"""The safetensors format: eight bytes of length, a JSON header, the tensors without gaps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weight_port.dtypes import DTYPES, SAFETENSORS
from weight_port.errors import fail
from weight_port.regions import Region, Stored, TensorInfo, contiguous, foreign, map_file, place

HEADER_LIMIT = 100_000_000  # bytes, as in the reference implementation
NAMES = {name: short for short, name in SAFETENSORS.items()}


def read_safetensors(path: Path) -> tuple[dict[str, Stored], dict[str, str]]:
    """The tensors by name, and the metadata. Raises PortError WPT003 when header and file do not fit."""
    file = map_file(path)
    length = int.from_bytes(file[:8], "little")
    if length > HEADER_LIMIT or 8 + length > len(file):
        fail("WPT003", f"{path} is damaged: it ends within its header", "Was it cut off? Fetch or copy it again.")
    try:
        header = json.loads(file[8 : 8 + length], object_pairs_hook=unique)
        metadata = header.pop("__metadata__", {})
        if not all(type(n) is int for entry in header.values() for n in entry["data_offsets"]):
            raise ValueError("an offset is not a whole number")
        spans = sorted((*entry["data_offsets"], name) for name, entry in header.items())
        end = 0
        for start, stop, name in spans:
            if start != end or stop < start:
                raise ValueError(f"{name} does not start where the tensor before it ends")
            end = stop
        if 8 + length + end != len(file):
            fail("WPT003", f"{path} is damaged: it has {len(file):,} bytes, its header speaks of {8 + length + end:,}",
                 "Was it cut off? Fetch or copy it again.")  # fmt: skip
        return {name: _stored(name, entry, file, 8 + length) for name, entry in header.items()}, metadata
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        fail("WPT003", f"{path} is damaged: {error}")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, refused where a name stands twice: two readers could see two different files."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def _stored(name: str, entry: Mapping[str, Any], file: Any, base: int) -> Stored:
    if entry["dtype"] not in SAFETENSORS or SAFETENSORS[entry["dtype"]] not in DTYPES:
        fail("WPT005", f"{name} has the type {entry['dtype']!r}, which numpy cannot hold")
    if len(entry["shape"]) > 64 or not all(type(n) is int and n >= 0 for n in entry["shape"]):
        raise ValueError(f"{name} has the shape {entry['shape']}")
    info = TensorInfo(tuple(entry["shape"]), DTYPES[SAFETENSORS[entry["dtype"]]])
    start, stop = entry["data_offsets"]
    if stop - start != info.nbytes:
        raise ValueError(f"{name} {info.shape} of {info.dtype} takes {info.nbytes} bytes, not {stop - start}")
    strides = tuple(s // info.dtype.itemsize for s in contiguous(info))
    return place(name, info, Region(file, base + start, stop - start, foreign("little")), 0, strides)


def header(tensors: Mapping[str, TensorInfo], metadata: Mapping[str, str]) -> tuple[bytes, list[str]]:
    """What a file of these tensors begins with, and the order in which their bytes follow.

    Wide types come first, so that each tensor lies at a multiple of its element size.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    entries: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name in order:
        info = tensors[name]
        if info.dtype.name not in NAMES:
            fail("WPT009", f"safetensors has no type {info.dtype.name} ({name})", "Write .msgpack or .npz instead.")
        stop = offset + info.nbytes
        entries[name] = {"dtype": NAMES[info.dtype.name], "shape": list(info.shape), "data_offsets": [offset, stop]}
        offset = stop
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, order
