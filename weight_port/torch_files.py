"""torch.save files, today's zip format and the one before torch 1.6: the saved object, and where its blocks lie."""

from __future__ import annotations

import io
import mmap
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from weight_port import pickles
from weight_port.dtypes import DTYPES
from weight_port.errors import fail
from weight_port.pickles import StorageRef, TensorRef
from weight_port.regions import Region, Stored, TensorInfo, foreign, map_file, place

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LOCAL_HEADER = struct.Struct("<4s22xHH")


def read_torch(path: Path) -> tuple[Any, dict[str, Region], str]:
    """The object that was saved, its blocks by key, and the format's name. Raises PortError WPT002 or WPT003."""
    file = map_file(path)
    try:
        if file[:4] == b"PK\x03\x04":
            return *read_zip(path, file), "torch.save"
        return *_read_legacy(path, file), "torch.save (before torch 1.6)"
    except (UnpicklingError, zipfile.BadZipFile, struct.error, EOFError, ValueError, NotImplementedError) as error:
        fail("WPT003", f"{path} is damaged: {error}", "Was it cut off? Compare its size with the original's.")


def locate(name: str, tensor: TensorRef, regions: Mapping[str, Region]) -> Stored:
    """Where a tensor's elements lie. Raises PortError WPT003 when they lie outside the file."""
    if tensor.storage.key not in regions:
        fail("WPT003", f"{name} refers to the block {tensor.storage.key!r}, which the file does not hold")
    info = TensorInfo(tensor.shape, DTYPES[tensor.dtype])
    return place(name, info, regions[tensor.storage.key], tensor.offset, tensor.stride)


# --- zip --------------------------------------------------------------------------------------------------------------


class Range(io.RawIOBase):
    """A part of a mapped file, as a file of its own."""

    def __init__(self, file: mmap.mmap, start: int, length: int) -> None:
        self._file, self._start, self._length, self._place = file, start, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = max(0, offset + (0, self._place, self._length)[whence])
        return self._place

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._length - self._place))
        first = self._start + self._place
        buffer[:count] = self._file[first : first + count]
        self._place += count
        return count


def read_zip(path: Path, file: mmap.mmap, start: int = 0, length: int | None = None) -> tuple[Any, dict[str, Region]]:
    """The object saved in a zip archive, which may lie inside of a larger file, and its blocks."""
    length = len(file) if length is None else length
    try:
        with zipfile.ZipFile(io.BufferedReader(Range(file, start, length))) as archive:
            records = archive.infolist()
    except (zipfile.BadZipFile, struct.error, EOFError, NotImplementedError) as error:
        raise ValueError(error) from None
    names = [record.filename for record in records]
    if len(set(names)) != len(names):
        fail("WPT003", f"{path} holds two records of one name: two readers could see two different checkpoints")
    roots = [name.rpartition("/")[0] for name in names if name.rpartition("/")[2] == "data.pkl"]
    if len(roots) != 1:
        what = "a NumPy archive" if any(name.endswith(".npy") for name in names) else "a zip file"
        fail("WPT002", f"{path} is {what}, not a torch checkpoint: it has no single data.pkl")
    root = f"{roots[0]}/" if roots[0] else ""
    if f"{root}constants.pkl" in names:
        fail("WPT002", f"{path} is a TorchScript program",
             "Save its weights with torch: torch.save(torch.jit.load(...).state_dict(), 'weights.pt')")  # fmt: skip
    contents = {
        record.filename.removeprefix(root): _record(file, record, start, length)
        for record in records
        if record.filename.startswith(root)
    }
    _check_apart(contents)
    order = contents.get("byteorder")
    swapped = foreign("little" if order is None else _bytes(order).decode("ascii"))
    regions = {
        name.removeprefix("data/"): Region(file, region.start, region.nbytes, swapped)
        for name, region in contents.items()
        if name.startswith("data/")
    }
    return pickles.loads(_bytes(contents["data.pkl"])), regions


def _check_apart(records: Mapping[str, Region]) -> None:
    """Refuse records that lie over each other, as they do in zip bombs."""
    end, before = 0, ""
    for name, region in sorted(records.items(), key=lambda entry: (entry[1].start, entry[1].nbytes)):
        if region.nbytes and region.start < end:
            raise ValueError(f"the records {before} and {name} lie over each other")
        end, before = max(end, region.start + region.nbytes), name


def _record(file: mmap.mmap, record: zipfile.ZipInfo, begin: int, length: int) -> Region:
    """Where the record's bytes are; the central directory does not say, since the local header's length varies."""
    if record.compress_type != zipfile.ZIP_STORED or record.flag_bits & 1:
        raise ValueError(f"{record.filename} is compressed or encrypted, as torch never writes it")
    if not 0 <= record.header_offset <= length - _LOCAL_HEADER.size:
        raise ValueError(f"the record {record.filename} lies outside the file")
    header = begin + record.header_offset
    magic, name_length, extra_length = _LOCAL_HEADER.unpack_from(file, header)
    start = header + _LOCAL_HEADER.size + name_length + extra_length
    if magic != b"PK\x03\x04" or start + record.file_size > begin + length:
        raise ValueError(f"the record {record.filename} lies outside the file")
    return Region(file, start, record.file_size)


def _bytes(region: Region) -> bytes:
    return region.file[region.start : region.start + region.nbytes]


# --- before torch 1.6: one pickle after the other, then the blocks ----------------------------------------------------


def _read_legacy(path: Path, file: mmap.mmap) -> tuple[Any, dict[str, Region]]:
    if file[:1] != b"\x80":
        fail("WPT002", f"{path} is not a torch checkpoint")
    with io.BufferedReader(io.FileIO(path)) as stream:
        try:
            magic = pickles.load(stream)
        except UnpicklingError:
            magic = None
        if magic != LEGACY_MAGIC:
            fail("WPT002", f"{path} is a pickle, but not one that torch wrote",
                 "Load it where it was made and save the weights as .safetensors or by torch.save.")  # fmt: skip
        pickles.load(stream)  # the protocol's version
        pickles.load(stream)  # facts about the machine that wrote it; blocks are little-endian on every machine
        storages: dict[str, StorageRef] = {}
        saved = pickles.load(stream, storages)
        keys = pickles.load(stream)
        start = stream.tell()
    if not isinstance(keys, list) or set(keys) != set(storages):
        raise ValueError("the list of blocks is not that of the object")
    regions = {}
    for key in keys:
        count = int.from_bytes(file[start : start + 8], "little")
        nbytes = count * DTYPES[storages[key].dtype].itemsize
        if start + 8 + nbytes > len(file):
            raise ValueError(f"it ends within the block {key!r}")
        regions[key] = Region(file, start + 8, nbytes, foreign("little"))
        start += 8 + nbytes
    return saved, regions
