"""Orbax checkpoints, written without Orbax: a folder of zarr arrays, one for each leaf, that it restores.

Written tensor by tensor and uncompressed, which is many times faster than through jax arrays and needs no memory.
Read back by tensorstore, which also knows Orbax's own compressed layout.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from weight_port.dtypes import DTYPES, is_extended
from weight_port.errors import fail
from weight_port.names import joined, parts_of
from weight_port.outputs import Outputs, Window
from weight_port.regions import Region, Stored, TensorInfo, foreign, map_file
from weight_port.room import room_for
from weight_port.staging import Stage

_DICT_KEY = 2  # how Orbax calls the key of a dict


@dataclass(frozen=True)
class Mesh:
    """Devices and how the leaves lie on them: the file of ``--mesh``.

    axes: the length of each mesh axis. rules: patterns of leaf paths, each with the mesh axis (or axes, or None) along
    which every axis of the leaf is cut; the first that fits counts, and leaves without one are not cut.
    """

    axes: Mapping[str, int]
    rules: tuple[tuple[str, tuple[Any, ...]], ...]

    @classmethod
    def read(cls, path: Path) -> Mesh:
        """From JSON: ``{"axes": {"data": 2, "model": 4}, "rules": [["params/*/kernel", [null, "model"]]]}``."""
        try:
            data = json.loads(path.read_text())
            axes = {str(name): int(length) for name, length in data["axes"].items()}
            rules = tuple((str(pattern), tuple(spec)) for pattern, spec in data.get("rules", []))
        except OSError as error:
            fail("WPT001", f"cannot open {path}: {error.strerror or error}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            fail("WPT007", f"{path} is not the description of a mesh: {error}",
                 'It looks like {"axes": {"model": 4}, "rules": [["params/*/kernel", [null, "model"]]]}.')  # fmt: skip
        mesh = cls(axes, rules)
        for pattern, spec in rules:
            for entry in spec:
                for name in _names(entry):
                    if name not in axes:
                        fail("WPT007", f"{path}: the rule {pattern!r} names the axis {name!r}, which the mesh has not")
        return mesh

    def chunks(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what one device holds of a leaf. Raises PortError WPT103 where it does not divide."""
        spec = next((spec for pattern, spec in self.rules if fnmatchcase(name, pattern)), ())
        if len(spec) > len(shape):
            fail("WPT103", f"{name} has {len(shape)} axes, the mesh's rule for it {len(spec)}")
        counts = [math.prod(self.axes[axis] for axis in _names(entry)) for entry in spec]
        counts += [1] * (len(shape) - len(spec))
        for axis, (length, count) in enumerate(zip(shape, counts, strict=True)):
            if length % count:
                fail("WPT103", f"{name}: axis {axis} of {shape} cannot be cut into {count} equal parts")
        return tuple(length // count for length, count in zip(shape, counts, strict=True))


def _names(entry: Any) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def write_orbax(stage: Stage, outputs: Outputs, mesh: Mesh | None) -> None:
    """The leaves, then what Orbax reads first, so that a folder that was not finished is none.

    Raises PortError WPT009 for an empty tensor, which Orbax cannot hold.
    """
    for name, info in outputs.infos.items():
        if 0 in info.shape:
            fail("WPT009", f"Orbax holds no empty tensors ({name} {info.shape})", "Write .safetensors or .msgpack.")
    for name, info in outputs.infos.items():
        chunks = mesh.chunks(name, info.shape) if mesh else info.shape
        folder = _place(name)
        starts = [range(0, length, step) for length, step in zip(info.shape, chunks, strict=True)]
        for corner in itertools.product(*starts):
            window = None
            if chunks != info.shape:
                window = tuple(slice(start, start + step) for start, step in zip(corner, chunks, strict=True))
            place = ".".join(str(start // step) for start, step in zip(corner, chunks, strict=True)) or "0"
            size = math.prod(chunks) * info.dtype.itemsize
            stage.file(f"{folder}/{place}", lambda file, n=name, w=window: _fill(file, outputs, n, w), size)
        text = json.dumps(_zarray(info, chunks), separators=(",", ":"))
        stage.file(f"{folder}/.zarray", lambda file, text=text: file.write(text.encode()), 0)
    for file_name, content in (("_METADATA", _metadata(outputs.infos)), ("_CHECKPOINT_METADATA", _checkpoint())):
        text = json.dumps(content)
        stage.file(file_name, lambda file, text=text: file.write(text.encode()), 0)


def _place(name: str) -> str:
    """The folder of an array, which has one level more where a name in the tree has a slash."""
    return ".".join(parts_of(name))


def _fill(file: Any, outputs: Outputs, name: str, window: Window | None) -> None:
    for part in outputs.stream(name, window):
        file.write(part.view(np.uint8).data)


def _zarray(info: TensorInfo, chunks: tuple[int, ...]) -> dict[str, Any]:
    dtype = info.dtype.name if is_extended(info.dtype) else info.dtype.newbyteorder("<").str
    return {
        "chunks": list(chunks),
        "compressor": None,
        "dimension_separator": ".",
        "dtype": dtype,
        "fill_value": None,
        "filters": None,
        "order": "C",
        "shape": list(info.shape),
        "zarr_format": 2,
    }


def _metadata(infos: Mapping[str, TensorInfo]) -> dict[str, Any]:
    tree = {}
    for name in infos:
        keys = parts_of(name)
        tree[str(keys)] = {
            "key_metadata": [{"key": key, "key_type": _DICT_KEY} for key in keys],
            "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": False},
        }
    flags = {"use_ocdbt": False, "use_zarr3": False, "store_array_data_equal_to_fill_value": True}
    return {"tree_metadata": tree, **flags, "custom_metadata": None}


def _checkpoint() -> dict[str, Any]:
    now = time.time_ns()
    return {
        "item_handlers": "orbax.checkpoint._src.handlers.standard_checkpoint_handler.StandardCheckpointHandler",
        "metrics": {},
        "performance_metrics": {},
        "init_timestamp_nsecs": now,
        "commit_timestamp_nsecs": now,
        "custom_metadata": {},
    }


def orbax_folder(path: Path) -> Path | None:
    """The folder of a tree that Orbax wrote: this one, or the only one in it, as managers of checkpoints keep them:
    "1000/default", "checkpoint_1000". None where there is none. Raises PortError WPT001 where there are several."""
    if (path / "_METADATA").is_file():
        return path
    if not path.is_dir():
        return None
    steps = {folder: folder.name.rpartition("_")[2] for folder in path.iterdir()}
    counted = sorted((step for step in steps if steps[step].isdecimal()), key=lambda step: int(steps[step]))
    below = [path / "default", *counted, *(step / "default" for step in counted)]
    found = [folder for folder in below if (folder / "_METADATA").is_file()]
    if len(found) > 1:
        listed = ", ".join(str(folder.relative_to(path)) for folder in found)
        fail("WPT001", f"{path} holds {len(found)} Orbax checkpoints: {listed}", "Give one of these folders.")
    return found[0] if found else None


def read_orbax(path: Path) -> tuple[dict[str, TensorInfo], Any]:
    """Names, shapes and types, and a function that reads one tensor. Raises PortError WPT002 or WPT003."""
    import tensorstore

    try:
        metadata = json.loads((path / "_METADATA").read_text())
        names = [joined(k["key"] for k in e["key_metadata"]) for e in metadata["tree_metadata"].values()]
        ocdbt, zarr3 = metadata.get("use_ocdbt", False), metadata.get("use_zarr3", False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fail("WPT003", f"{path} is damaged: its _METADATA cannot be read: {error}")
    places = {name: _place(name) for name in names}
    if outside := [name for name, place in places.items() if {"", ".", ".."} & {*place.split("/")}]:
        fail("WPT003", f"{path} names an array {outside[0]!r}, which does not lie in it", "No other folder is read.")
    root = {"driver": "file", "path": f"{path.resolve()}/"}
    arrays: dict[str, Any] = {}
    infos: dict[str, TensorInfo] = {}
    for name in names:
        if not (ocdbt or zarr3) and (stored := _mapped(path / places[name])) is not None:
            arrays[name], infos[name] = stored, stored.info
            continue
        inner = f"{places[name]}/"
        store: dict[str, Any] = {**root, "path": f"{root['path']}{inner}"}
        if ocdbt:
            store = {"driver": "ocdbt", "base": root, "path": inner}
        try:
            array = tensorstore.open({"driver": "zarr3" if zarr3 else "zarr", "kvstore": store}, read=True).result()
        except (ValueError, OSError) as error:
            fail("WPT003", f"{path} is damaged: {name}: {str(error).splitlines()[0]}")
        arrays[name] = array
        infos[name] = TensorInfo(tuple(array.shape), np.dtype(array.dtype.numpy_dtype))

    def read(name: str) -> np.ndarray:
        if isinstance(arrays[name], Stored):
            return arrays[name].read()
        try:
            return _unpacked(arrays[name], infos[name])
        except (ValueError, OSError) as error:
            fail("WPT003", f"{path} is damaged: {name}: {str(error).splitlines()[0]}")

    return infos, read


def _unpacked(array: Any, info: TensorInfo) -> np.ndarray:
    """An array of tensorstore's, its chunks along the first axis one after the other."""
    rows = array.chunk_layout.read_chunk.shape[:1] or (1,)
    if info.shape[:1] <= rows:
        return np.asarray(array.read().result())
    out = room_for(info)
    for start in range(0, info.shape[0], rows[0]):
        out[start : start + rows[0]] = array[start : start + rows[0]].read().result()
    return out


def _mapped(folder: Path) -> Stored | None:
    """An array that lies in one file as it is in memory, as `write_orbax` leaves it without a mesh; None for others."""
    try:
        told = json.loads((folder / ".zarray").read_text())
        shape, plain = tuple(told["shape"]), told["compressor"] is None and told["filters"] is None
        if not plain or told["order"] != "C" or tuple(told["chunks"]) != shape:
            return None
        dtype = DTYPES.get(told["dtype"]) or np.dtype(told["dtype"])
        file = folder / (".".join("0" * len(shape)) or "0")
        info = TensorInfo(shape, dtype.newbyteorder("="))
        if dtype.byteorder == ">" or file.stat().st_size != info.nbytes:
            return None
        return Stored(info, Region(map_file(file), 0, info.nbytes, foreign("little")))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # tensorstore says what is wrong
