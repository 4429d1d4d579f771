"""NumPy's .npz: a zip archive of .npy files. Nothing in it is unpickled."""

from __future__ import annotations

import mmap
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from weight_port.dtypes import is_extended
from weight_port.errors import PortError, fail
from weight_port.outputs import Outputs
from weight_port.regions import Region, Stored, TensorInfo, contiguous, foreign, map_file, place
from weight_port.room import room_for

INFLATED_LIMIT = 2**30  # bytes that entries which shrank more than a hundredfold may claim together


def write_npz(file: IO[bytes], outputs: Outputs) -> None:
    """Write the tensors uncompressed. Raises PortError WPT009 for a type that NumPy alone does not know."""
    for name, info in outputs.infos.items():
        if is_extended(info.dtype):
            fail("WPT009", f"npz cannot hold {info.dtype} ({name})", "Write .safetensors, or give --dtype float32.")
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, info in outputs.infos.items():
            record = zipfile.ZipInfo(f"{name}.npy")  # a fixed date: the same weights give the same file
            with archive.open(record, "w", force_zip64=True) as entry:
                head = {"shape": info.shape, "fortran_order": False, "descr": np.lib.format.dtype_to_descr(info.dtype)}
                np.lib.format.write_array_header_1_0(entry, head)
                for part in outputs.stream(name, None):
                    entry.write(part.view(np.uint8).data)


def read_flax_npz(path: Path) -> tuple[dict[str, TensorInfo], Callable[[str], np.ndarray]]:
    """Shapes and types by name, and a function that reads one. Raises PortError WPT001 or WPT003."""
    found = read_npz(path)
    if found is None or found[1]:
        what = ", ".join(f"{name} is {of}" for name, of in found[1].items()) if found else "it has no arrays"
        fail("WPT003", f"{path} is not an npz archive of weights: {what}")
    stored = found[0]
    return {name: tensor.info for name, tensor in stored.items()}, lambda name: stored[name].read()


@dataclass(frozen=True)
class Inflated:
    """A compressed array: reading it unpacks it. ``head``: the bytes before it, ``swapped``: the other byte order,
    ``fortran``: its first axis is the fastest."""

    info: TensorInfo
    path: Path
    record: str
    head: int
    swapped: bool
    fortran: bool

    def read(self) -> np.ndarray:
        """The array. Raises PortError WPT003 where the data do not fit the header."""
        shape = self.info.shape[::-1] if self.fortran else self.info.shape
        out = room_for(TensorInfo(shape, self.info.dtype))
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.record) as entry:
                entry.read(self.head)
                _unpack(entry, out.reshape(-1).view(np.uint8))
        except Exception as error:
            fail("WPT003", f"{self.path} is damaged: {self.record}: {_reason(error)}")
        if self.swapped:
            out.byteswap(inplace=True)
        return out.T if self.fortran else out

    def release(self) -> None:
        """Nothing is kept."""


def _unpack(entry: IO[bytes], out: np.ndarray) -> None:
    """Fill the bytes, to the end of the entry: there its checksum is looked at."""
    start = 0
    while part := entry.read(2**18):
        out[start : start + len(part)] = np.frombuffer(part, np.uint8)
        start += len(part)
    if start != out.size:
        raise ValueError("it ends too early")


def read_npz(path: Path) -> tuple[dict[str, Stored | Inflated], dict[str, str]] | None:
    """The arrays of an archive by name, and what stands under the other names; None for another kind of zip file.

    Stored arrays are views of the file, compressed ones are unpacked when they are read. Arrays of Python objects are
    not: they would be unpickled. Raises PortError WPT003 or WPT006.
    """
    file = map_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            records = archive.infolist()
            names = [record.filename for record in records]
            if not names or not all(name.endswith(".npy") for name in names):
                return None
            if len(set(names)) != len(names):
                fail("WPT003", f"{path} holds two records of one name")
            claimed = sum(r.file_size for r in records if r.file_size > 100 * max(r.compress_size, 1))
            if claimed > INFLATED_LIMIT:
                fail("WPT006", f"{path} unpacks {path.stat().st_size:,} bytes to {claimed:,}")
            stored: dict[str, Stored | Inflated] = {}
            opaque: dict[str, str] = {}
            for record in records:
                name = record.filename.removesuffix(".npy")
                with archive.open(record) as entry:
                    found = _entry(path, file, name, record, entry)
                if isinstance(found, str):
                    opaque[name] = found
                else:
                    stored[name] = found
            return stored, opaque
    except PortError:
        raise
    except Exception as error:  # numpy evaluates headers as Python: a damaged one can fail in every way that has
        fail("WPT003", f"{path} is damaged: {_reason(error)}")


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__


def _entry(
    path: Path, file: mmap.mmap, name: str, record: zipfile.ZipInfo, entry: IO[bytes]
) -> Stored | Inflated | str:
    version = np.lib.format.read_magic(entry)
    reader = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    shape, fortran, dtype = reader[version[0]](entry)
    if dtype.hasobject or dtype.names or dtype.kind not in "biufcV":
        return f"an array of {dtype}"
    if dtype.kind == "V":  # how numpy names the types of ml_dtypes: it loses them
        return f"an array of raw {dtype.itemsize}-byte elements"
    head, info = entry.tell(), TensorInfo(shape, dtype.newbyteorder("="))
    if len(shape) > 64 or any(n < 0 for n in shape) or head + prod(shape) * dtype.itemsize != record.file_size:
        raise ValueError(f"{name} claims the shape {shape}, and has {record.file_size - head} bytes")
    swapped = foreign("big") if dtype.byteorder == ">" else foreign("little") if dtype.byteorder == "<" else False
    if record.compress_type != zipfile.ZIP_STORED:
        return Inflated(info, path, record.filename, head, swapped, fortran)
    local = record.header_offset
    start = local + 30 + int.from_bytes(file[local + 26 : local + 28], "little")
    start += int.from_bytes(file[local + 28 : local + 30], "little") + head
    if start + info.nbytes > len(file):
        raise ValueError(f"{name} lies outside the file")
    strides = tuple(s // dtype.itemsize for s in contiguous(info))
    if fortran:
        strides = tuple(s // dtype.itemsize for s in contiguous(TensorInfo(shape[::-1], info.dtype)))[::-1]
    return place(name, info, Region(file, start, info.nbytes, swapped), 0, strides)
