"""Write weights tensor by tensor, and read them back. The name's ending tells the format; a folder is Orbax's."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from migrate.manifest import replacing
from weight_port.dtypes import is_extended
from weight_port.errors import fail
from weight_port.msgpack_files import write_msgpack
from weight_port.msgpack_reading import is_msgpack, read_msgpack
from weight_port.npz_files import read_flax_npz, write_npz
from weight_port.orbax_files import Mesh, orbax_folder, read_orbax, write_orbax
from weight_port.outputs import Outputs
from weight_port.regions import TensorInfo
from weight_port.safetensors_files import header, read_safetensors
from weight_port.staging import staged

FLAX_FORMATS = (".safetensors", ".msgpack", ".npz")
BY_TORCH = (".pt", ".pth", ".bin")
TORCH_FORMATS = (".safetensors", *BY_TORCH, ".npz")

Read = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class Options:
    """How to write. shard_size: bytes of a file at most, for safetensors in a folder. resume: keep and use what an
    interrupted run of the same ``fingerprint`` finished. beside: what stands beside the state dict in a torch file."""

    metadata: Mapping[str, str]
    shard_size: int | None = None
    mesh: Mesh | None = None
    resume: bool = False
    fingerprint: str = ""
    skipped: Callable[[int], None] = lambda nbytes: None  # told what an earlier run had finished
    beside: Mapping[str, Any] = field(default_factory=dict)


def is_folder(path: Path) -> bool:
    """Whether the output is a folder rather than a file: it has none of the known endings."""
    return path.suffix not in FLAX_FORMATS + TORCH_FORMATS


def check_output(path: Path, reverse: bool, options: Options) -> None:
    """Raise PortError WPT009 where the name and the options do not fit, before anything is read."""
    formats = TORCH_FORMATS if reverse else FLAX_FORMATS
    if path.suffix in {".msgpack", *TORCH_FORMATS} - set(formats) or (is_folder(path) and path.suffix):
        known = f"Give it one of the endings {', '.join(formats)}, or none for a folder."
        if is_folder(path):
            fail("WPT009", f"cannot tell the format of {path}", known)
        fail("WPT009", f"{'torch' if reverse else 'Flax'} weights are not kept as {path.suffix}", known)
    if path.is_dir() and not is_folder(path):
        fail("WPT009", f"{path} is a folder", "Give the file another name.")
    if is_folder(path) and path.exists() and (not path.is_dir() or any(path.iterdir())):
        fail("WPT009", f"{path} exists already", "A folder is written new: remove it, or choose another name.")
    if options.shard_size is not None and not is_folder(path):
        fail("WPT009", f"shards need a folder, and {path} is a file", "Give a name without an ending.")
    if options.mesh is not None and (reverse or not is_folder(path) or options.shard_size is not None):
        fail("WPT009", "a mesh describes the chunks of an Orbax folder", "Give a folder, and no size of shards.")
    if options.resume and not is_folder(path):
        fail("WPT009", f"only a folder can be resumed, and {path} is a file", "Give a name without an ending.")


def write(path: Path, outputs: Outputs, options: Options, *, reverse: bool = False) -> None:
    """Write the outputs, each when its turn comes and then let go; the whole file or folder, or nothing.

    Only safetensors keeps the metadata. Raises PortError WPT009 or WPT010.
    """
    try:
        if not is_folder(path):
            with replacing(path) as file:
                _write_file(path.suffix, file, outputs, options)
        elif reverse or options.shard_size is not None:
            with staged(path, options.fingerprint, resume=options.resume, skip=options.skipped) as stage:
                _write_shards(stage, outputs, options)
        else:
            with staged(path, options.fingerprint, resume=options.resume, skip=options.skipped) as stage:
                write_orbax(stage, outputs, options.mesh)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = f"{outputs.nbytes:,} bytes are needed." if full else ""
        fail("WPT010", f"cannot write {path}: {error.strerror or error}", advice)


def _write_file(suffix: str, file: IO[bytes], outputs: Outputs, options: Options) -> None:
    if suffix == ".safetensors":
        write_safetensors(file, outputs, options.metadata)
    elif suffix == ".msgpack":
        write_msgpack(file, outputs)
    elif suffix == ".npz":
        write_npz(file, outputs)
    else:
        write_torch(file, outputs, options.beside)


def write_safetensors(file: IO[bytes], outputs: Outputs, metadata: Mapping[str, str]) -> None:
    """One safetensors file."""
    head, order = header(outputs.infos, metadata)
    file.write(head)
    for name in order:
        for part in outputs.stream(name, None):
            file.write(part.view(np.uint8).data)


def _write_shards(stage, outputs: Outputs, options: Options) -> None:
    """Safetensors files of about the same size with an index, named as Hugging Face names them."""
    shards: list[list[str]] = [[]]
    size, limit = 0, options.shard_size or math.inf
    for name, info in outputs.infos.items():
        if shards[-1] and size + info.nbytes > limit:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += info.nbytes
    places: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        whole = len(shards) == 1
        file_name = "model.safetensors" if whole else f"model-{number:05}-of-{len(shards):05}.safetensors"
        places |= dict.fromkeys(names, file_name)
        part = replace(outputs, infos={name: outputs.infos[name] for name in names})
        stage.file(file_name, lambda file, part=part: write_safetensors(file, part, options.metadata), part.nbytes)
    if len(shards) > 1:
        index = {"metadata": {"total_size": outputs.nbytes}, "weight_map": places}
        text = json.dumps(index, indent=2, sort_keys=True) + "\n"
        stage.file("model.safetensors.index.json", lambda file: file.write(text.encode()), 0)


def read(path: Path) -> tuple[dict[str, TensorInfo], Read]:
    """Names, shapes and types in a Flax file, names as "params/conv1/kernel", and a function that reads one of them.

    Raises PortError WPT002 or WPT003.
    """
    if (folder := orbax_folder(path)) is not None:
        return read_orbax(folder)
    if path.suffix == ".safetensors":
        stored, _ = read_safetensors(path)
        return {name: tensor.info for name, tensor in stored.items()}, lambda name: stored[name].read()
    if path.suffix == ".npz":
        return read_flax_npz(path)
    if path.suffix == ".msgpack" or (is_folder(path) and is_msgpack(path)):
        return read_msgpack(path)
    if path.is_dir() and any(path.glob("*.safetensors")):
        found = [read_safetensors(part)[0] for part in sorted(path.glob("*.safetensors"))]
        stored = {name: tensor for shard in found for name, tensor in shard.items()}
        return {name: tensor.info for name, tensor in stored.items()}, lambda name: stored[name].read()
    known = f"Flax weights end in one of {', '.join(FLAX_FORMATS)}, or are an Orbax folder."
    fail("WPT002", f"cannot tell the format of {path}", known)


def write_torch(file: IO[bytes], outputs: Outputs, beside: Mapping[str, Any]) -> None:
    """By torch itself, the only format that needs it; the whole state dict is in memory once.

    Where something stands ``beside`` it, the state dict is its "model".
    """
    try:
        import torch
    except ImportError:
        fail("WPT009", "torch is needed to write its own format", "Install it, or write .safetensors.")
    state = {}
    for name, info in outputs.infos.items():
        if name in outputs.same_as:
            continue
        array = outputs.whole(name)
        extended = is_extended(info.dtype)
        tensor = torch.from_numpy(array.view(f"i{info.dtype.itemsize}") if extended else array)
        state[name] = tensor.view(getattr(torch, info.dtype.name)) if extended else tensor
    for name, same in outputs.same_as.items():  # a tied tensor stays one tensor
        state[name] = state[same]
    ordered = {name: state[name] for name in outputs.infos}
    torch.save({"model": ordered, **beside} if beside else ordered, file)
