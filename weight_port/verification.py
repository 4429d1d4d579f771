"""Compare what was written with what it was made from, leaf by leaf, and name the content by a hash.

Both files are read anew. A leaf that is one tensor is compared with numpy's own view of it, not with the tiles and
windows by which it was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from weight_port.apply import stream_step
from weight_port.plan import Step
from weight_port.regions import TensorInfo
from weight_port.views import same_bits, slabs

Read = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class Compared:
    """One leaf of the output: its bytes' SHA-256, and what is wrong with it ("" where it is equal)."""

    name: str
    digest: str
    wrong: str = ""


@dataclass(frozen=True)
class Verification:
    """Every leaf compared. ``content`` is the same for the same names, types, shapes and bits in whatever format."""

    leaves: tuple[Compared, ...]
    content: str

    @property
    def differing(self) -> tuple[Compared, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.wrong)


def verify(
    steps: Mapping[str, Step],
    read: Read,
    found: Mapping[str, TensorInfo],
    read_found: Read,
    progress: Callable[[int], None] = lambda nbytes: None,
) -> Verification:
    """Compare the outputs of ``steps`` (by name; tied names share a step) with the leaves ``found``."""
    leaves: list[Compared] = []
    total = hashlib.sha256()
    for name in sorted({*steps, *found}):
        if name not in found:
            leaves.append(Compared(name, "", "it is missing"))
            continue
        if name not in steps:
            leaves.append(Compared(name, "", "nothing was to be written there"))
            continue
        array, info = read_found(name), found[name]
        digest = content_of(array)
        leaves.append(Compared(name, digest, _wrong(steps[name], read, array)))
        total.update(f"{name} {info.dtype.name} {list(info.shape)} {digest}\n".encode())
        progress(info.nbytes)
    return Verification(tuple(leaves), total.hexdigest())


def content_of(array: np.ndarray) -> str:
    """The SHA-256 of the elements in row-major order."""
    digest = hashlib.sha256()
    for part in slabs(array):
        digest.update(part.view(np.uint8).data)
    return digest.hexdigest()


def _wrong(step: Step, read: Read, array: np.ndarray) -> str:
    if (array.shape, array.dtype) != (step.after.shape, step.after.dtype):
        return f"it is {array.dtype.name} {array.shape}, not {step.after.dtype.name} {step.after.shape}"
    flat, start = array.reshape(-1), 0
    for part in stream_step(step, read):
        if not same_bits(part, flat[start : start + part.size]):
            return "its values differ"
        start += part.size
    return ""
