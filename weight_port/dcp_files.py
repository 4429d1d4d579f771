"""Torch's distributed checkpoints: a folder with a pickled ``.metadata`` and files of pieces.

The metadata is read by our own unpickler; ``torch.distributed.checkpoint.load`` would run it. Each piece is a tensor as
torch.save writes it, somewhere in a file; a tensor may be cut into pieces of different processes.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from weight_port import pickles
from weight_port.errors import fail
from weight_port.pickles import Opaque, StorageRef, TensorRef
from weight_port.pieces import covers
from weight_port.regions import Stored, TensorInfo, map_file
from weight_port.room import room_for
from weight_port.torch_files import locate, read_zip

METADATA = ".metadata"


@dataclass(frozen=True)
class Pieced:
    """A tensor that is stored in pieces; each with where it lies in the whole."""

    info: TensorInfo
    pieces: tuple[tuple[tuple[slice, ...], Stored], ...]

    def read(self) -> np.ndarray:
        """The whole tensor, put together."""
        out = room_for(self.info)
        for index, piece in self.pieces:
            out[index] = piece.read()
            piece.release()
        return out

    def release(self) -> None:
        """Nothing is kept."""


def is_dcp(path: Path) -> bool:
    return (path / METADATA).is_file()


def read_dcp(path: Path) -> tuple[Any, dict[str, Stored | Pieced]]:
    """What was saved, as nested dicts whose tensors are references, and the tensors by the key of their reference.

    Raises PortError WPT003 where it is damaged.
    """
    try:
        saved = pickles.loads((path / METADATA).read_bytes())
        tensors, places = _state(saved)["state_dict_metadata"], _state(saved)["storage_data"]
        names = _state(saved).get("planner_data") or {}
        return _tree(path, tensors, places, names)
    except OSError as error:
        fail("WPT001", f"cannot open {path / METADATA}: {error.strerror or error}")
    except (UnpicklingError, KeyError, TypeError, ValueError, AttributeError) as error:
        fail("WPT003", f"{path} is damaged, or not a distributed checkpoint: {error}")


def _state(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Opaque) or not isinstance(value.state, Mapping):
        raise ValueError("the metadata is not of the known kind")
    return value.state


def _tree(path: Path, tensors: Any, places: Any, names: Any) -> tuple[Any, dict[str, Stored | Pieced]]:
    where: dict[str, list[tuple[tuple[int, ...], Mapping[str, Any]]]] = {}
    for index, place in places.items():
        told = _state(index)
        where.setdefault(told["fqn"], []).append((tuple(told.get("offset") or ()), _state(place)))
    files: dict[str, mmap.mmap] = {}
    found: dict[str, Stored | Pieced] = {}
    tree: dict[Any, Any] = {}
    for name, metadata in tensors.items():
        node, parts = tree, tuple(names.get(name) or (name,)) if isinstance(names, Mapping) else (name,)
        for part in parts[:-1]:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise ValueError(f"{name} lies inside of a tensor")
        state = _state(metadata) if isinstance(metadata, Opaque) and metadata.state else {}
        if "size" not in state:  # bytes: a number, a scheduler's state
            node[parts[-1]] = metadata
            continue
        whole = _tensor(path, name, tuple(state["size"]), where.get(name, []), files)
        found[name] = whole
        storage = StorageRef(name, whole.info.dtype.name, 0)
        zeros = (0,) * len(whole.info.shape)
        node[parts[-1]] = TensorRef(storage, whole.info.dtype.name, 0, whole.info.shape, zeros)
    return tree, found


def _tensor(
    path: Path,
    name: str,
    shape: tuple[int, ...],
    pieces: list[tuple[tuple[int, ...], Mapping[str, Any]]],
    files: dict[str, mmap.mmap],
) -> Stored | Pieced:
    made: list[tuple[tuple[slice, ...], Stored]] = []
    for offsets, place in pieces:
        relative, start, length = place["relative_path"], place["offset"], place["length"]
        if not isinstance(relative, str) or relative != Path(relative).name or relative in ("", ".", ".."):
            raise ValueError(f"{name} is placed in {relative!r}, outside of the folder")
        if not all(type(n) is int and n >= 0 for n in (start, length, *offsets, *shape)):
            raise ValueError(f"{name} has a place that is not one")
        if relative not in files:
            files[relative] = map_file(path / relative)
        if start + length > len(files[relative]):
            raise ValueError(f"{relative} ends within {name}")
        saved, regions = read_zip(path / relative, files[relative], start, length)
        if not isinstance(saved, TensorRef):
            raise ValueError(f"what is stored of {name} is not a plain tensor")
        piece = locate(name, saved, regions)
        corner = offsets or (0,) * len(shape)
        index = tuple(slice(o, o + n) for o, n in zip(corner, piece.info.shape, strict=True))
        made.append((index, piece))
    if not made or len({piece.info.dtype for _, piece in made}) != 1:
        raise ValueError(f"{name} is not stored, or in pieces of different types")
    if len(made) == 1 and made[0][1].info.shape == shape:
        return made[0][1]
    if not covers([index for index, _ in made], shape):
        raise ValueError(f"the pieces of {name} do not make up {shape}")
    return Pieced(TensorInfo(shape, made[0][1].info.dtype), tuple(made))
