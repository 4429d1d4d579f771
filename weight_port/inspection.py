"""What a checkpoint holds, read from its headers alone: what ``migrate inspect`` does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from migrate.layers.moves import show
from weight_port import store
from weight_port.checkpoint import Checkpoint, open_checkpoint
from weight_port.dcp_files import Pieced
from weight_port.errors import PortError, SeveralStateDicts
from weight_port.msgpack_reading import is_msgpack
from weight_port.npz_files import Inflated
from weight_port.optimizer_state import list_optimizers
from weight_port.orbax_files import orbax_folder
from weight_port.regions import Stored, TensorInfo, contiguous
from weight_port.report import size

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Entry:
    """One tensor. ``same_as``: the first key whose bytes it shares; ``note``: how it lies in the file, if unusually."""

    key: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    same_as: str = ""
    note: str = ""


@dataclass(frozen=True)
class Part:
    """One state dict. ``key``: where in the file it is ("" the top); ``other``: what stands under keys of no tensor."""

    key: str
    tensors: tuple[Entry, ...]
    other: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors; what several share counts once."""
        return sum(entry.nbytes for entry in self.tensors if not entry.same_as)


@dataclass(frozen=True)
class Inspection:
    """All state dicts of a checkpoint, and those of its optimizers."""

    path: str
    format: str
    parts: tuple[Part, ...]
    optimizers: tuple[Part, ...] = ()

    def as_json(self) -> str:
        """Everything, for programs."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    def render(self, console: Console) -> None:
        """Everything, for people."""
        from rich.table import Table

        console.print(f"{self.path}: {self.format}", markup=False, highlight=False)
        for part in (*self.parts, *self.optimizers):
            if part.key or part in self.optimizers:
                option = "--optimizer-key" if part in self.optimizers else "--key"
                console.print(f"\n{option} {part.key or repr('')}", markup=False, highlight=False)
            table = Table(box=None, pad_edge=False)
            for heading in ("key", "shape", "type", "bytes", ""):
                table.add_column(heading, justify="right" if heading == "bytes" else "left", overflow="fold")
            for entry in part.tensors:
                note = f"shares {entry.same_as}" if entry.same_as else ""
                note = ", ".join(filter(None, (note, entry.note)))
                table.add_row(entry.key, show(entry.shape), entry.dtype, f"{entry.nbytes:,}", note)
            console.print(table)
            for key, what in part.other.items():
                console.print(f"not a tensor: {key} ({what})", markup=False, highlight=False)
            for note in part.notes:
                console.print(f"note: {note}", markup=False, highlight=False)
            count = len(part.tensors)
            console.print(f"{count} tensor{'s' * (count != 1)}, {size(part.nbytes)}", markup=False, highlight=False)


def inspect(path: str | Path, key: str | None = None) -> Inspection:
    """What is in a checkpoint of torch or Flax. No tensor is read. Raises PortError."""
    path = Path(path)
    if path.suffix == ".msgpack" or is_msgpack(path) or orbax_folder(path) is not None:
        infos, _ = store.read(path)
        form = "Orbax" if path.is_dir() else "Flax msgpack"
        return Inspection(str(path), form, (Part("", tuple(_plain(name, infos[name]) for name in infos), {}),))
    try:
        found = [open_checkpoint(path, key=key, allow_expanded=True)]
    except SeveralStateDicts as several:
        if key is not None:
            raise
        found = [open_checkpoint(path, key=one, allow_expanded=True) for one in several.keys]
    except PortError as error:
        with suppress(PortError):  # as Accelerate saves it, in a file of its own
            if key is None and error.code == "WPT002" and (optimizers := _optimizers(path)):
                return Inspection(str(path), "torch.save", (), optimizers)
        raise
    optimizers = _optimizers(path) if key is None and found[0].format.startswith("torch") else ()
    return Inspection(str(path), found[0].format, tuple(_part(checkpoint) for checkpoint in found), optimizers)


def _optimizers(path: Path) -> tuple[Part, ...]:
    return tuple(
        Part(key, tuple(_plain(name, info) for name, info in tensors.items()), {}, groups)
        for key, (tensors, groups) in list_optimizers(path).items()
    )


def _part(checkpoint: Checkpoint) -> Part:
    same_as = _shared(checkpoint)
    tensors = tuple(
        Entry(name, info.shape, info.dtype.name, info.nbytes, same_as.get(name, ""), _note(checkpoint.stored[name]))
        for name, info in checkpoint.items()
    )
    return Part(checkpoint.key, tensors, checkpoint.opaque, checkpoint.notes())


def _plain(name: str, info: TensorInfo) -> Entry:
    return Entry(name, info.shape, info.dtype.name, info.nbytes)


def _shared(checkpoint: Checkpoint) -> dict[str, str]:
    """Each key whose bytes are, wholly or in part, those of an earlier one."""
    spans: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    found: dict[str, str] = {}
    for name, tensor in checkpoint.stored.items():
        if not isinstance(tensor, Stored) or not tensor.info.nbytes:
            continue
        strides = tensor.strides if tensor.strides is not None else contiguous(tensor.info)
        reach = sum((n - 1) * s for n, s in zip(tensor.info.shape, strides, strict=True)) + tensor.info.dtype.itemsize
        start, stop = tensor.offset, tensor.offset + reach
        before = spans.setdefault((id(tensor.region.file), tensor.region.start), [])
        other = _first(known for a, b, known in before if a < stop and start < b)
        if other is not None:
            found[name] = other
        before.append((start, stop, found.get(name, name)))
    return found


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)


def _note(tensor: Any) -> str:
    if isinstance(tensor, Pieced):
        return f"in {len(tensor.pieces)} pieces"
    if isinstance(tensor, Inflated):
        return "compressed"
    if tensor.info.nbytes > tensor.region.nbytes - tensor.offset:
        return "repeats its elements"
    lengths = zip(tensor.info.shape, tensor.strides or (), contiguous(tensor.info), strict=False)
    return "strided" if any(length > 1 and one != other for length, one, other in lengths) else ""
