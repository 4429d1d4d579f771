"""Write weights to a file, tensor by tensor, and read them back: safetensors, Flax's msgpack, npz, torch.save."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import ml_dtypes  # noqa: F401  (makes numpy know bfloat16 by name)
import msgpack
import numpy as np

from migrate.manifest import replacing
from weight_port.dtypes import is_extended
from weight_port.errors import fail
from weight_port.regions import TensorInfo
from weight_port.safetensors_files import header, read_safetensors

SLAB = 16 * 2**20  # bytes that are copied together at a time
STRIP = 128  # columns that are transposed together
CHUNK = 2**30  # flax splits larger arrays
FLAX_FORMATS = (".safetensors", ".msgpack", ".npz")
TORCH_FORMATS = (".safetensors", ".pt", ".pth", ".bin", ".npz")

Read = Callable[[str], np.ndarray]
Write = Callable[[IO[bytes], Mapping[str, TensorInfo], Read, Mapping[str, str]], None]


def check_output(path: Path, formats: tuple[str, ...]) -> None:
    """Raise PortError WPT009 where the ending names no known format."""
    if path.suffix not in formats:
        fail("WPT009", f"cannot tell the format of {path}", f"Give it one of the endings {', '.join(formats)}.")


def write(path: Path, tensors: Mapping[str, TensorInfo], read: Read, metadata: Mapping[str, str]) -> None:
    """Write ``tensors``, each got by ``read`` when its turn comes and then let go; the whole file or none at all.

    The path's ending chooses the format; only safetensors keeps ``metadata``. Raises PortError WPT009 or WPT010.
    """
    writers: dict[str, Write] = {".safetensors": _write_safetensors, ".msgpack": _write_msgpack, ".npz": _write_npz}
    try:
        with replacing(path) as file:
            writers.get(path.suffix, _write_torch)(file, tensors, read, metadata)
    except OSError as error:
        fail("WPT010", f"cannot write {path}: {error.strerror or error}")


def read(path: Path) -> tuple[dict[str, TensorInfo], Read]:
    """Names, shapes and types in a Flax file, names as "params/conv1/kernel", and a function that reads one of them.

    Raises PortError WPT002 or WPT003.
    """
    if path.suffix == ".safetensors":
        stored, _ = read_safetensors(path)
        return {name: tensor.info for name, tensor in stored.items()}, lambda name: stored[name].read()
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".msgpack":
        arrays = _read_msgpack(path)
        return {name: TensorInfo(a.shape, a.dtype) for name, a in arrays.items()}, arrays.__getitem__
    fail("WPT002", f"cannot tell the format of {path}", f"Flax weights end in one of {', '.join(FLAX_FORMATS)}.")


def slabs(array: np.ndarray) -> Iterator[memoryview]:
    """The elements in row-major order, a bounded number of bytes at a time, whatever the array's strides."""
    if array.nbytes <= SLAB:
        yield _row_major(array)
    elif array.nbytes > SLAB * len(array):  # a single row is too much
        for row in array:
            yield from slabs(row)
    else:
        rows = SLAB * len(array) // array.nbytes
        for start in range(0, len(array), rows):
            yield _row_major(array[start : start + rows])


def _row_major(array: np.ndarray) -> memoryview:
    """The bytes of a small array; of its own memory where it is contiguous.

    A transposed matrix is copied by strips: numpy's own copy of one is two (float32) to seven (bfloat16) times slower.
    """
    if not array.flags.c_contiguous:
        bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.itemsize <= 8 else array
        array = np.empty(bits.shape, bits.dtype)
        for start in range(0, array.shape[-1], STRIP):
            array[..., start : start + STRIP] = bits[..., start : start + STRIP]
    return array.reshape(-1).view(np.uint8).data


# --- safetensors ------------------------------------------------------------------------------------------------------


def _write_safetensors(
    file: IO[bytes], tensors: Mapping[str, TensorInfo], read: Read, metadata: Mapping[str, str]
) -> None:
    head, order = header(tensors, metadata)
    file.write(head)
    for name in order:
        file.writelines(slabs(read(name)))


# --- msgpack, as flax.serialization has it: nested maps; an array is extension 1: (shape, type's name, bytes) ---------


def _write_msgpack(file: IO[bytes], tensors: Mapping[str, TensorInfo], read: Read, metadata: Mapping[str, str]) -> None:
    tree: dict[str, Any] = {}
    for name in tensors:
        *parents, last = name.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = name
    packer = msgpack.Packer()

    def put(node: Any) -> None:
        if isinstance(node, str):
            _put_array(file, packer, tensors[node], read(node))
            return
        file.write(packer.pack_map_header(len(node)))
        for key, child in node.items():
            file.write(packer.pack(key))
            put(child)

    put(tree)


def _put_array(file: IO[bytes], packer: msgpack.Packer, info: TensorInfo, array: np.ndarray) -> None:
    if info.nbytes <= CHUNK:
        _put_extension(file, packer, info, array)
        return
    flat, length = array.reshape(-1), max(1, CHUNK // info.dtype.itemsize)
    parts = [flat[start : start + length] for start in range(0, flat.size, length)]
    file.write(packer.pack_map_header(3) + packer.pack("__msgpack_chunked_array__") + packer.pack(True))
    file.write(packer.pack("shape") + packer.pack({str(i): n for i, n in enumerate(info.shape)}))
    file.write(packer.pack("chunks") + packer.pack_map_header(len(parts)))
    for i, part in enumerate(parts):
        file.write(packer.pack(str(i)))
        _put_extension(file, packer, TensorInfo(part.shape, info.dtype), part)


def _put_extension(file: IO[bytes], packer: msgpack.Packer, info: TensorInfo, array: np.ndarray) -> None:
    head = packer.pack_array_header(3) + packer.pack(info.shape) + packer.pack(info.dtype.name)
    head += _sized(info.nbytes, (0xC4, 0xC5, 0xC6))
    total = len(head) + info.nbytes
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(total)
    file.write((bytes([fixed]) if fixed else _sized(total, (0xC7, 0xC8, 0xC9))) + b"\x01" + head)
    file.writelines(slabs(array))


def _sized(length: int, codes: tuple[int, int, int]) -> bytes:
    """A length in one, two or four bytes, after the code that says how many."""
    for code, form, limit in zip(codes, (">BB", ">BH", ">BI"), (2**8, 2**16, 2**32), strict=True):
        if length < limit:
            return struct.pack(form, code, length)
    raise AssertionError("arrays are split before they reach 4 GiB")


def _read_msgpack(path: Path) -> dict[str, np.ndarray]:
    try:
        tree = msgpack.unpackb(path.read_bytes(), ext_hook=_extension, strict_map_key=False)
        return _arrays(tree, "")
    except OSError as error:
        fail("WPT001", f"cannot open {path}: {error.strerror or error}")
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        fail("WPT003", f"{path} is damaged, or not a tree of arrays that flax.serialization wrote: {error}")


def _extension(code: int, data: bytes) -> Any:
    if code not in (1, 3):  # an array, a numpy scalar
        raise ValueError(f"an entry of the kind {code}")
    shape, dtype, buffer = msgpack.unpackb(data)
    return np.frombuffer(buffer, np.dtype(dtype)).reshape(shape)


def _arrays(node: Any, path: str) -> dict[str, np.ndarray]:
    if isinstance(node, np.ndarray):
        return {path: node}
    if not isinstance(node, dict):
        raise ValueError(f"{path or 'its top'} is a {type(node).__name__}, not an array")
    if "__msgpack_chunked_array__" in node:
        parts = [node["chunks"][str(i)] for i in range(len(node["chunks"]))]
        return {path: np.concatenate(parts).reshape([node["shape"][str(i)] for i in range(len(node["shape"]))])}
    return {p: a for key, child in node.items() for p, a in _arrays(child, f"{path}/{key}" if path else key).items()}


# --- npz --------------------------------------------------------------------------------------------------------------


def _write_npz(file: IO[bytes], tensors: Mapping[str, TensorInfo], read: Read, metadata: Mapping[str, str]) -> None:
    for name, info in tensors.items():
        if is_extended(info.dtype):
            fail("WPT009", f"npz cannot hold {info.dtype} ({name})", "Write .safetensors, or give --dtype float32.")
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, info in tensors.items():
            record = zipfile.ZipInfo(f"{name}.npy")  # a fixed date: the same weights give the same file
            with archive.open(record, "w", force_zip64=True) as entry:
                head = {"shape": info.shape, "fortran_order": False, "descr": np.lib.format.dtype_to_descr(info.dtype)}
                np.lib.format.write_array_header_1_0(entry, head)
                entry.writelines(slabs(read(name)))


def _read_npz(path: Path) -> tuple[dict[str, TensorInfo], Read]:
    infos: dict[str, TensorInfo] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as entry:
                    version = np.lib.format.read_magic(entry)
                    reader = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
                    shape, _, dtype = reader[version[0]](entry)
                infos[name.removesuffix(".npy")] = TensorInfo(shape, dtype)
    except OSError as error:
        fail("WPT001", f"cannot open {path}: {error.strerror or error}")
    except (zipfile.BadZipFile, ValueError, KeyError) as error:
        fail("WPT003", f"{path} is damaged, or not an npz archive: {error}")

    def read(name: str) -> np.ndarray:
        with np.load(path, allow_pickle=False) as archive:
            return archive[name]

    return infos, read


# --- torch ------------------------------------------------------------------------------------------------------------


def _write_torch(file: IO[bytes], tensors: Mapping[str, TensorInfo], read: Read, metadata: Mapping[str, str]) -> None:
    """By torch itself, the only format that needs it; the whole state dict is in memory once."""
    try:
        import torch
    except ImportError:
        fail("WPT009", "torch is needed to write its own format", "Install it, or write .safetensors.")
    state: dict[str, Any] = {}
    made: dict[int, Any] = {}  # a tied tensor stays one tensor
    for name, info in tensors.items():
        array = read(name)
        if id(array) not in made:
            copy = np.array(array, order="C")
            plain = copy.view(f"i{info.dtype.itemsize}") if is_extended(info.dtype) else copy
            tensor = torch.from_numpy(plain)
            made[id(array)] = (
                tensor.view(getattr(torch, info.dtype.name)) if is_extended(info.dtype) else tensor,
                array,
            )
        state[name] = made[id(array)][0]
    torch.save(state, file)
