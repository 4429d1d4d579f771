"""Each operation in both frameworks, in three modes of JAX, against the oracle."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import ml_dtypes
import numpy as np

from migrate.files.source import parse
from migrate.pipeline import convert
from parity.codes import ParityError
from parity.exact import ORACLES
from parity.operations.programs import in_torch, returned
from parity.operations.table import OPERATIONS, inputs, points
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
class Point:
    """A special value or a tie: what either framework gives there, element by element, and what the oracle does.

    `of` is "value" or the slope by an input. The oracle gives both ends of what is right: the slopes on either side;
    NaN where the definition gives nothing.
    """

    at: str
    of: str
    torch: tuple[float, ...]
    jax: tuple[float, ...]
    exact: tuple[tuple[float, float], ...]

    @property
    def differs(self) -> bool:
        """Whether the two are apart; the sign of a zero counts in a value, not in a slope."""
        signed = self.of == "value"
        return not all(_same(one, other, signed) for one, other in zip(self.torch, self.jax, strict=True))

    @property
    def telling(self) -> bool:
        """Whether the oracle gives a number here: a tie or an end, and no NaN or infinity that was put in."""
        return bool(np.isfinite(self.exact).all())

    @property
    def denormal(self) -> bool:
        return "denormal" in self.at


@dataclass(frozen=True)
class OperationResult:
    """`programs`: what is called in torch and in JAX. `agreement`: how far the two oracles are apart, None where only
    one was asked."""

    name: str
    programs: tuple[str, str]
    dtype: str
    seed: int
    tensors: tuple[Tensor, ...]
    agreement: float | None
    points: tuple[Point, ...] = ()

    @property
    def finding(self) -> bool:
        return any(tensor.finding for tensor in self.tensors)


def run(
    names: Sequence[str], *, dtype: str = "float32", seed: int = 0, samples: int = 4096, oracle: str = "mpmath"
) -> list[OperationResult]:
    """Compares operations. Raises ParityError for names that are not known and for sides that fail."""
    _check(names, dtype, oracle)
    torch = in_torch(names)
    jax = rewritten(torch)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        arrays = _drawn(names, dtype, seed, samples)
        config = {"dtype": dtype, "oracle": oracle, "in_torch": torch, "in_jax": jax}
        found = _sides(config, arrays, Path(folder))
    return [
        OperationResult(
            name,
            (returned(torch, name), OPERATIONS[name].flax or returned(jax, name)),
            dtype,
            seed,
            tuple(_tensors(name, dtype, found)),
            _agreement(name, found),
            tuple(_points(name, found)),
        )
        for name in names
    ]


def rewritten(torch: str) -> str:
    """The operations as the rewriter writes them. Raises ParityError PAR211 where one is not rewritten."""
    made = convert(parse("operations.py", torch))
    if made.report.exit_code:
        raise ParityError("PAR211", made.report.as_text())
    return made.text


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
        operation = OPERATIONS[name]
        given = {name: inputs(operation, samples, seed)}
        given |= {f"{name}@{at}": values for at, values in points(operation).items()}
        for key, values in given.items():
            arrays |= {f"{key}/{i}": _rounded(value, dtype) for i, value in enumerate(values)}
    return arrays


def _rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(DTYPES[dtype]).astype(np.float64) if array.dtype.kind == "f" else array


def _sides(config: dict[str, str], arrays: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
    places = {side: str(folder / f"{side}.npz") for side in ("torch", "jax", "exact")}
    np.savez(folder / "inputs.npz", **arrays)  # pyright: ignore[reportArgumentType]
    (folder / "config.json").write_text(json.dumps({**config, **places, "inputs": str(folder / "inputs.npz")}))
    modules = {f"the {side} side": ["parity.operations.child", side, str(folder / "config.json")] for side in places}
    with running(modules) as children:
        for child in children:
            child.output(TIMEOUT)
    found: dict[str, np.ndarray] = {}
    for place in places.values():
        with np.load(place) as stored:
            found |= {key: stored[key] for key in stored.files}
    return found


def _agreement(name: str, found: dict[str, np.ndarray]) -> float | None:
    agreement = float(found[f"{name}/exact/agreement"])
    return None if np.isnan(agreement) else agreement


def _points(name: str, found: dict[str, np.ndarray]) -> Iterator[Point]:
    operation = OPERATIONS[name]
    for at in operation.points:
        theirs, ours, exact = (f"{name}@{at}/{side}/" for side in ("torch", "jit", "exact"))
        differentiable = [key.removeprefix(theirs) for key in found if key.startswith(f"{theirs}grad")]
        for part in ("value", *differentiable):
            ends = found[exact + part] if part != "value" else np.stack([found[exact + part]] * 2)
            of = part if part == "value" else f"slope by {operation.inputs[int(part.removeprefix('grad'))]}"
            torch, jax, low, high = (_flat(a) for a in (found[theirs + part], found[ours + part], *ends))
            yield Point(at, of, torch, jax, tuple(zip(low, high, strict=True)))


def _flat(array: np.ndarray) -> tuple[float, ...]:
    return tuple(array.reshape(-1).tolist())


def _same(one: float, other: float, signed: bool) -> bool:
    """Equal, to rounding: a special value is about infinities, signs of zeros, and what is flushed to zero."""
    if np.isnan(one) or np.isnan(other):
        return bool(np.isnan(one) and np.isnan(other))
    return bool(np.isclose(one, other, rtol=1e-2, atol=0.0) and (not signed or np.signbit(one) == np.signbit(other)))


def _tensors(name: str, dtype: str, found: dict[str, np.ndarray]) -> Iterator[Tensor]:
    parts = [key.rpartition("/")[2] for key in found if key.startswith(f"{name}/exact/")]
    return (_tensor(name, part, dtype, found) for part in parts if part != "agreement")


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
