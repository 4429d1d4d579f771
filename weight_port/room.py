"""Room for a tensor that cannot be a view of its file: in memory where it is small, else in a file of its own.

The file has no name and goes with the last array that looks at it, so that what a process needs of memory does not grow
with its tensors. It lies where temporary files do (``TMPDIR``).
"""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np

from weight_port.errors import fail
from weight_port.regions import TensorInfo

LARGE = 32 * 2**20  # bytes


def room_for(info: TensorInfo) -> np.ndarray:
    """An array to fill. Raises PortError WPT010 where there is no room for it on the disk."""
    if info.nbytes <= LARGE:
        return np.empty(info.shape, info.dtype)
    try:
        with tempfile.TemporaryFile() as file:
            # taken from the disk now: a mapped file for which there is no room would end the process later on
            os.posix_fallocate(file.fileno(), 0, info.nbytes)
            return np.frombuffer(mmap.mmap(file.fileno(), info.nbytes), info.dtype).reshape(info.shape)
    except OSError as error:
        fail("WPT010", f"no room for {info.nbytes:,} bytes in {tempfile.gettempdir()}: {error.strerror or error}",
             "A tensor that the file holds in parts is put together there. Set TMPDIR to another folder.")  # fmt: skip
