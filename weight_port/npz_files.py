"""NumPy's .npz: a zip archive of .npy files. Nothing in it is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from weight_port.dtypes import is_extended
from weight_port.errors import fail
from weight_port.outputs import Outputs
from weight_port.regions import TensorInfo


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
