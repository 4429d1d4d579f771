"""One lazy interface to every kind of torch checkpoint: keys, shapes and types at once, values tensor by tensor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from weight_port.dcp_files import Pieced, is_dcp, read_dcp
from weight_port.errors import PortError, fail
from weight_port.folded import Folded, folded
from weight_port.names import Lookup
from weight_port.npz_files import Inflated, read_npz
from weight_port.regions import Stored, TensorInfo, check_expanded
from weight_port.safetensors_files import read_safetensors, unique
from weight_port.state_dicts import PARALLEL, averages_count, choose, common_prefixes, strip
from weight_port.torch_files import locate, read_torch

__all__ = ["Checkpoint", "TensorInfo", "open_checkpoint"]

_LAID_OUT = tuple(  # as Hugging Face's libraries name the weights in a folder; safetensors before torch's own
    f"{stem}{ending}{index}"
    for ending, stems in ((".safetensors", ("model", "diffusion_pytorch_model")),
                          (".bin", ("pytorch_model", "diffusion_pytorch_model")))
    for stem in stems
    for index in (".index.json", "")
)  # fmt: skip
_STRANGERS = (  # how files begin that people take for checkpoints
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "Fetch it: git lfs pull"),
    (b"<", "a web page or XML, not a checkpoint", "Was a sign-in page downloaded in its place?"),
    (b"\x89HDF", "an HDF5 file (Keras)", ""),
    (b"\x93NUMPY", "a single NumPy array", ""),
    (b"\x1f\x8b", "a gzip archive", "Unpack it first."),
    (b"GGUF", "a GGUF file, whose tensors are quantised", "Port the safetensors that it was made from."),
)


@dataclass(frozen=True, eq=False)
class Checkpoint(Mapping[str, TensorInfo]):
    """Tensors by key. Opening reads headers only; ``read`` gives a view of the mapped file. Of those that have to be
    put together the last one is kept, since its chunks may be asked for one by one.

    ``opaque`` names what stands under keys that hold no readable tensor. ``key`` is where in the file the state dict
    was found ("" the top), ``stripped`` the prefixes that were taken off the keys, ``made`` the weights that were
    folded, with the keys that they stand for.
    """

    path: Path
    format: str
    stored: Mapping[str, Stored | Pieced | Inflated | Folded]
    opaque: dict[str, str]
    key: str = ""
    stripped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    made: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _last: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def __getitem__(self, key: str) -> TensorInfo:
        return self.stored[key].info

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def read(self, key: str) -> np.ndarray:
        """The tensor as it is stored, read-only; strided where it was saved as a view of a larger one."""
        tensor = self.stored[key]
        if isinstance(tensor, Stored):
            return tensor.read()
        if key not in self._last:
            self._last.clear()
            self._last[key] = tensor.read()
            self._last[key].flags.writeable = False
        return self._last[key]

    def release(self, key: str) -> None:
        """Let the memory that reading ``key`` took go; it can be read again."""
        self.stored[key].release()

    def parts(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The shapes of what weights were folded from, by the names of the weights."""
        return {
            name: {key: part.info.shape for key, part in zip(keys, tensor.parts, strict=True)}
            for name, keys in self.made.items()
            if isinstance(tensor := self.stored[name], Folded)
        }

    def unfolded(self, keys: Iterable[str]) -> Checkpoint:
        """With these keys, which may have wildcards, where weights were folded from them."""
        wanted = Lookup((key, key) for key in keys)
        apart = {name for name, parts in self.made.items() if any(any(wanted.find(part)) for part in parts)}
        stored = {name: tensor for name, tensor in self.stored.items() if name not in apart}
        for name in apart:
            tensor = self.stored[name]
            assert isinstance(tensor, Folded)
            stored |= dict(zip(self.made[name], tensor.parts, strict=True))
        return replace(self, stored=stored, made={n: parts for n, parts in self.made.items() if n not in apart})

    def notes(self) -> tuple[str, ...]:
        """What was decided on opening, in words."""
        found = (f"taken from {self.key!r} of the file",) if self.key else ()
        found += tuple(f"{name} is left out: it counts the models of an average" for name in self.left_out)
        found += tuple(f"{name} is folded from {' and '.join(parts)}" for name, parts in self.made.items())
        return found + tuple(f"the prefix {prefix!r} was taken off the keys" for prefix in self.stripped)


def open_checkpoint(
    path: str | Path,
    *,
    key: str | None = None,
    expected: Iterable[str] = (),
    fold: bool = False,
    allow_expanded: bool = False,
) -> Checkpoint:
    """Open a .safetensors, torch.save or sharded checkpoint. No pickled code is run and torch is not needed.

    key: which state dict, where the file holds several. expected: the names that will be asked for; a ``module.``
    that they have is the model's own and stays on the keys, and a plain weight among them is folded where torch keeps
    a weight_norm or spectral_norm of it. fold: fold every one. allow_expanded: tensors that repeat their elements may
    claim any number of bytes. Raises PortError WPT001 to WPT006.
    """
    path = Path(path)
    if path.is_dir() and is_dcp(path):
        found = _open_dcp(path, key)
    elif path.is_dir():
        path = _inside(path)
        return open_checkpoint(path, key=key, expected=expected, fold=fold, allow_expanded=allow_expanded)
    elif (head := _head(path))[:1] in (b"{", b"\xef") and path.suffix == ".json":
        found = _open_index(path)
    else:
        found = _open_one(path, head, key)
    if not allow_expanded:
        check_expanded({name: tensor for name, tensor in found.stored.items() if isinstance(tensor, Stored)})
    expected = tuple(expected)
    count = averages_count(found.stored) if not any(name.startswith(PARALLEL) for name in expected) else None
    kept = {name: tensor for name, tensor in found.stored.items() if name != count}
    stripped = common_prefixes(kept, expected)
    stored = {strip(name, stripped): tensor for name, tensor in kept.items()}
    opaque = {strip(name, stripped): what for name, what in found.opaque.items()}
    left_out = () if count is None else (count,)
    weights = list(folded(stored, None if fold else expected))
    made = {name: parts for name, parts, _ in weights}
    gone = {part for parts in made.values() for part in parts}
    stored = {name: tensor for name, tensor in stored.items() if name not in gone}
    stored |= {name: weight for name, _, weight in weights}
    return Checkpoint(path, found.format, stored, opaque, found.key, stripped, left_out, made)


def _inside(folder: Path) -> Path:
    """The weights in a folder as Hugging Face lays them out."""
    for name in _LAID_OUT:
        if (folder / name).is_file():
            return folder / name
    files = sorted(p.name for p in folder.iterdir() if p.suffix in (".safetensors", ".pt", ".pth", ".bin", ".ckpt"))
    if len(files) == 1:
        return folder / files[0]
    parts = sorted(path.parent.name for path in folder.glob("*/config.json"))
    advice = f"It holds {', '.join(files[:5] or parts)}: give one of them." if files or parts else "Give a file."
    fail("WPT001", f"{folder} is a directory without {_LAID_OUT[0]} or its like", advice)


def _open_dcp(path: Path, key: str | None) -> Checkpoint:
    saved, tensors = read_dcp(path)
    state = choose(saved, key, str(path))
    stored = {name: tensors[reference.storage.key] for name, reference in state.tensors.items()}
    return Checkpoint(path, "torch distributed checkpoint", dict(stored), state.opaque, state.path)


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(32)
    except OSError as error:
        fail("WPT001", f"cannot open {path}: {error.strerror or error}")


def _open_one(path: Path, head: bytes, key: str | None) -> Checkpoint:
    if head[5:9] == b"\0\0\0{":  # first, since the length before it may look like anything
        stored, _ = read_safetensors(path)
        return Checkpoint(path, "safetensors", stored, {})
    for start, what, help in _STRANGERS:
        if head.startswith(start):
            fail("WPT002", f"{path} is {what}", help)
    if head[:4] == b"PK\x03\x04" and (arrays := read_npz(path)) is not None:
        return Checkpoint(path, "npz", *arrays)
    if head[:4] == b"PK\x03\x04" or head[:1] == b"\x80":
        saved, regions, form = read_torch(path)
        state = choose(saved, key, str(path))
        stored = {name: locate(name, tensor, regions) for name, tensor in state.tensors.items()}
        return Checkpoint(path, form, stored, state.opaque, state.path)
    if not head:
        fail("WPT003", f"{path} is empty", "Fetch or save it again.")
    fail("WPT002", f"{path} is neither safetensors nor a torch checkpoint (it begins with {head[:8]!r})")


def _open_index(path: Path) -> Checkpoint:
    """The shards of a Hugging Face index, as one checkpoint. Only files beside the index are opened."""
    try:
        weight_map = json.loads(path.read_bytes(), object_pairs_hook=unique)["weight_map"]
        files = {str(name): str(file) for name, file in weight_map.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f": {error}" if "twice" in str(error) else ': it has no "weight_map"'
        fail("WPT002", f"{path} is not the index of a sharded checkpoint{why}")
    for file in files.values():
        if file in ("", ".", "..") or file != Path(file).name or "\\" in file or "\0" in file:
            fail("WPT003", f"{path} names the shard {file!r}, which does not lie beside it", "No other folder is read.")
    shards = {file: _open_shard(path, file) for file in dict.fromkeys(files.values())}
    for name, file in files.items():
        if name not in shards[file].stored:
            fail("WPT003", f"{path} says that {name} is in {file}, which does not hold it")
    for file, shard in shards.items():
        for name in shard.stored:
            if files.get(name) != file:
                fail("WPT003", f"{file} holds {name}, which {path.name} does not place there")
    form = f"{len(shards)} shards of {next(iter(shards.values())).format}" if shards else "no shards"
    return Checkpoint(path, form, {name: shards[file].stored[name] for name, file in files.items()}, {})


def _open_shard(index: Path, name: str) -> Checkpoint:
    shard = index.parent / name
    try:
        return _open_one(shard, _head(shard), None)
    except PortError as error:
        raise PortError(error.code, f"{index.name}: {error.message}", error.help) from None
