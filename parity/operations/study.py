"""Each operation in both frameworks, in three modes of JAX, against the oracle."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import ml_dtypes
import numpy as np

from parity.codes import ParityError
from parity.exact import ORACLES
from parity.operations.table import OPERATIONS, SPECIAL, inputs
from parity.processes import running
from parity.reference import units_in_last_place

DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
LIMIT = 10.0  # a single operation of a correct framework may be so many times less accurate than the other's
EDGES = (0.5, 1.0, 2.0, 4.0, 16.0, 1024.0)  # of the histogram, in units in the last place
TIMEOUT = 1800.0
FEW = 10


@dataclass(frozen=True)
class Accuracy:
    """Errors of one tensor against the oracle: RMS over the oracle's RMS, and in units in the last place; the
    histogram counts errors up to 0.5, 1, 2, 4, 16, 1024 units, and above. `not_finite`: entries where the oracle is
    finite and this is not."""

    relative: float
    max_ulp: float
    p999_ulp: float
    histogram: tuple[int, ...]
    not_finite: int


@dataclass(frozen=True)
class Tensor:
    """One output or gradient of an operation: torch, and JAX in its modes."""

    name: str
    count: int
    torch: Accuracy
    jax: Accuracy  # under jit, as scripts run
    differing: float  # share of entries that differ between torch and JAX
    ratio: float  # JAX's RMS error over torch's, floored
    modes: tuple[str, ...]  # those of JAX that give other values than jit

    @property
    def finding(self) -> bool:
        return self.ratio > LIMIT or self.jax.not_finite > self.torch.not_finite


@dataclass(frozen=True)
class OperationResult:
    """`agreement`: how far the two oracles are apart, None where only one was asked. `special`: for each special value
    on which the frameworks differ, what torch and what JAX give."""

    name: str
    dtype: str
    seed: int
    tensors: tuple[Tensor, ...]
    agreement: float | None
    special: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def finding(self) -> bool:
        return any(tensor.finding for tensor in self.tensors)


def run(
    names: Sequence[str], *, dtype: str = "float32", seed: int = 0, samples: int = 4096, oracle: str = "mpmath"
) -> list[OperationResult]:
    """Compares operations. Raises ParityError for names that are not known and for sides that fail."""
    _check(names, dtype, oracle)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        arrays = _drawn(names, dtype, seed, samples)
        found = _sides(names, arrays, dtype, oracle, Path(folder))
    return [_result(name, dtype, seed, found) for name in names]


def _check(names: Sequence[str], dtype: str, oracle: str) -> None:
    for name in names:
        if name not in OPERATIONS:
            near = get_close_matches(name, OPERATIONS, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(OPERATIONS)}"
            raise ParityError("PAR211", f"--op {name!r} is not known; {hint}")
    if dtype not in DTYPES:
        raise ParityError("PAR211", f"--dtype {dtype!r}: operations are compared in {', '.join(DTYPES)}")
    if oracle not in ORACLES:
        raise ParityError("PAR211", f"--oracle {oracle!r}: known are {', '.join(ORACLES)}")


def _drawn(names: Sequence[str], dtype: str, seed: int, samples: int) -> dict[str, np.ndarray]:
    """The inputs, rounded to the type, as float64; whole numbers as they are."""
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        for i, array in enumerate(inputs(OPERATIONS[name], samples, seed)):
            rounded = array.astype(DTYPES[dtype]).astype(np.float64) if array.dtype.kind == "f" else array
            arrays[f"{name}/{i}"] = rounded
        if OPERATIONS[name].elementwise:
            with np.errstate(over="ignore"):
                special = np.array(list(SPECIAL.values())).astype(DTYPES[dtype]).astype(np.float64)
            arrays[f"{name}/special/0"] = special
    return arrays


def _sides(
    names: Sequence[str], arrays: dict[str, np.ndarray], dtype: str, oracle: str, folder: Path
) -> dict[str, np.ndarray]:
    config = {"names": list(names), "dtype": dtype, "oracle": oracle, "inputs": str(folder / "inputs.npz")}
    config |= {side: str(folder / f"{side}.npz") for side in ("torch", "jax", "exact")}
    np.savez(folder / "inputs.npz", **arrays)  # pyright: ignore[reportArgumentType]
    (folder / "config.json").write_text(json.dumps(config))
    found: dict[str, np.ndarray] = {}
    for side in ("torch", "jax", "exact"):
        command = ["parity.operations.child", side, str(folder / "config.json")]
        with running({f"the {side} side": command}) as children:
            children[0].output(TIMEOUT)
        with np.load(folder / f"{side}.npz") as stored:
            found |= {key: stored[key] for key in stored.files}
    return found


def _result(name: str, dtype: str, seed: int, found: dict[str, np.ndarray]) -> OperationResult:
    parts = [key.rpartition("/")[2] for key in found if key.startswith(f"{name}/exact/")]
    tensors = tuple(_tensor(name, part, dtype, found) for part in parts if part != "agreement")
    agreement = float(found[f"{name}/exact/agreement"])
    special: dict[str, tuple[float, float]] = {}
    if OPERATIONS[name].elementwise:
        pairs = zip(SPECIAL, found[f"{name}/torch/special"], found[f"{name}/jit/special"], strict=True)
        special = {at: (float(t), float(j)) for at, t, j in pairs if not _same_special(t, j)}
    return OperationResult(name, dtype, seed, tensors, None if np.isnan(agreement) else agreement, special)


def _same_special(one: float, other: float) -> bool:
    """Equal, to rounding: a special value is about infinities, signs of zeros, and what is flushed to zero."""
    if np.isnan(one) or np.isnan(other):
        return bool(np.isnan(one) and np.isnan(other))
    return bool(np.isclose(one, other, rtol=1e-2, atol=0.0) and np.signbit(one) == np.signbit(other))


def _tensor(name: str, part: str, dtype: str, found: dict[str, np.ndarray]) -> Tensor:
    exact, torch = found[f"{name}/exact/{part}"], found[f"{name}/torch/{part}"]
    modes = {
        key.split("/")[1]: value
        for key, value in found.items()
        if key.startswith(f"{name}/") and key.endswith(f"/{part}") and key.split("/")[1] not in ("exact", "torch")
    }
    jitted = modes.pop("jit")
    ours, theirs = accuracy(exact, jitted, dtype), accuracy(exact, torch, dtype)
    with np.errstate(invalid="ignore"):
        differing = float(np.mean((jitted != torch) & ~(np.isnan(jitted) & np.isnan(torch))))
    other = tuple(mode for mode, value in modes.items() if not np.array_equal(value, jitted, equal_nan=True))
    # One number may happen to be rounded well: below a unit it is no measure. Of many, a quarter of a rounding is.
    epsilon = float(ml_dtypes.finfo(DTYPES[dtype]).eps)
    floor = epsilon if exact.size <= FEW else epsilon / 8
    return Tensor(part, exact.size, theirs, ours, differing, ours.relative / max(theirs.relative, floor), other)


def accuracy(exact: np.ndarray, computed: np.ndarray, dtype: str) -> Accuracy:
    """Errors of `computed`, a tensor of `dtype`, against the oracle; entries that overflow exactly are left out."""
    largest = float(ml_dtypes.finfo(DTYPES[dtype]).max)
    fits = np.isfinite(exact) & (np.abs(exact) <= largest)
    finite = fits & np.isfinite(computed)
    error = np.abs(computed[finite] - exact[finite])
    ulp = error / units_in_last_place(exact[finite], dtype)
    scale = _rms(exact[finite])
    counts = np.bincount(np.searchsorted(EDGES, ulp), minlength=len(EDGES) + 1)
    return Accuracy(
        _rms(error) / scale if scale else 0.0,
        float(ulp.max(initial=0.0)),
        float(np.quantile(ulp, 0.999)) if ulp.size else 0.0,
        tuple(int(count) for count in counts),
        int(np.count_nonzero(fits & ~finite)),
    )


def _rms(values: np.ndarray) -> float:
    """Scaled first, so that no square overflows or vanishes."""
    top = float(np.abs(values).max(initial=0.0))
    return top * float(np.sqrt(np.mean(np.square(values / top)))) if top else 0.0
