"""Both frameworks' matrix products on the same bits, each against a proved reference: `migrate parity --d 64..4096`.

The maximum error grows with d because more entries are drawn from the same distribution, not because entries get
worse: RMS and relative Frobenius error stay flat. Errors in units in the last place look huge where a sum cancels: the
error over u·|A||B| is the one that theory bounds, by about k.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
from threadpoolctl import threadpool_limits

from parity import emulate, reference
from parity.codes import ParityError
from parity.freivalds import Freivalds
from parity.processes import running
from parity.product_error import ProductError, Sampler, Sums

FRAMEWORKS = ("torch", "jax")
MPMATH_ENTRIES = 2000
HALF_FLOPS = 1e9  # torch multiplies float16 on the CPU at 0.3 GFLOP/s: beyond this the product is left out, and said so
TIMEOUT = 600.0

DISTRIBUTIONS: dict[str, Callable[[np.random.RandomState, tuple[int, int]], np.ndarray]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "uniform": lambda random, shape: random.uniform(-1.0, 1.0, shape),
    "positive": lambda random, shape: random.uniform(0.0, 1.0, shape),
    "lognormal": lambda random, shape: random.lognormal(0.0, 4.0, shape) * random.choice([-1.0, 1.0], shape),
}


@dataclass(frozen=True)
class Study:
    """What is asked for: one product for each d."""

    ds: tuple[int, ...]
    k: int = 4
    dtype: str = "float32"
    seed: int = 0
    dist: str = "normal"
    precision: str | None = None
    emulations: tuple[str, ...] = ()
    reference: str = "proved"


@dataclass(frozen=True)
class MatmulResult:
    """`differing` is the share of entries in which the frameworks differ; `mpmath_error` the largest deviation of the
    reference from mpmath over the entries checked, in units of the last place of `dtype`."""

    d: int
    k: int
    dtype: str
    seed: int
    dist: str
    errors: dict[str, ProductError]
    differing: float
    certificate: reference.Certificate
    freivalds: bool | None
    mpmath_entries: int
    mpmath_error: float
    seconds: float
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


def parse_ds(texts: Sequence[str]) -> tuple[int, ...]:
    """`64`, `64,256` and `64..4096` (doubling), several times.

    >>> parse_ds(["8..64", "100,7"])
    (8, 16, 32, 64, 100, 7)
    """
    ds: list[int] = []
    for part in ",".join(texts).split(","):
        low, dots, high = part.strip().partition("..")
        if not low.isdigit() or (dots and not high.isdigit()) or int(low) < 1 or (dots and int(high) < int(low)):
            raise ParityError("PAR211", f"--d {part.strip()!r}: write a size from 1 (64), a list (64,256) or 64..4096")
        ds.append(int(low))
        while dots and ds[-1] * 2 <= int(high):
            ds.append(ds[-1] * 2)
        if dots and ds[-1] != int(high):
            ds.append(int(high))
    return tuple(dict.fromkeys(ds))


def matmul_parity(d: int, dtype: str = "float32", seed: int = 0, *, k: int = 4) -> MatmulResult:
    """[d, k] x [k, d] of standard normal numbers. Raises ParityError for wrong arguments and failing frameworks."""
    return run(Study((d,), k, dtype, seed))[0]


def run(study: Study) -> list[MatmulResult]:
    """Every product of the study, in both frameworks. Raises ParityError."""
    _check(study)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        jobs, inputs = _jobs(study, Path(folder))
        answers = _products(study, jobs, Path(folder))
        results = []
        for i, (a, b) in enumerate(inputs):
            products = {name: np.load(jobs[i][name]) for name in answers}
            notes = _notes(study, {name: found[i] for name, found in answers.items()})
            versions = {name: str(found[i]["version"]) for name, found in answers.items()}
            results.append(measure(a, b, products, study, notes, versions))
        return results


def _check(study: Study) -> None:
    if study.dtype not in reference.PRECISION:
        raise ParityError("PAR211", f"dtype {study.dtype!r}: known are {', '.join(reference.PRECISION)}")
    if not study.ds or min(study.ds) < 1 or study.k < 1:
        raise ParityError("PAR211", f"d = {study.ds}, k = {study.k}: all must be at least 1")
    if study.dist not in DISTRIBUTIONS:
        raise ParityError("PAR211", f"--dist {study.dist!r}: known are {', '.join(DISTRIBUTIONS)}")
    for name in study.emulations:
        if name not in emulate.EMULATIONS:
            raise ParityError("PAR211", f"--emulate {name!r}: known are {', '.join(emulate.EMULATIONS)}")
    if study.reference not in ("proved", "mpmath"):
        raise ParityError("PAR211", f"--reference {study.reference!r}: known are proved, mpmath")


def _jobs(study: Study, folder: Path) -> tuple[list[dict[str, str]], list[tuple[np.ndarray, np.ndarray]]]:
    kind = np.dtype(getattr(ml_dtypes, study.dtype, study.dtype))
    jobs, inputs = [], []
    for i, d in enumerate(study.ds):
        random, draw = np.random.RandomState(study.seed), DISTRIBUTIONS[study.dist]
        a, b = (draw(random, shape).astype(kind).astype(np.float32) for shape in ((d, study.k), (study.k, d)))
        job = {"inputs": str(folder / f"{i}.npz")} | {name: str(folder / f"{i}-{name}.npy") for name in FRAMEWORKS}
        np.savez(job["inputs"], a=a, b=b)
        jobs.append(job)
        inputs.append((a, b))
    return jobs, inputs


def _products(study: Study, jobs: list[dict[str, str]], folder: Path) -> dict[str, list[dict[str, object]]]:
    """Both frameworks at once, each in a process of its own; what each said about each product."""
    config = folder / "config.json"
    config.write_text(json.dumps({"dtype": study.dtype, "precision": study.precision, "jobs": jobs}), encoding="utf-8")
    names = [name for name in FRAMEWORKS if not (name == "torch" and _too_slow(study))]
    commands = {f"the {name} products": ["parity.matmul_child", name, str(config)] for name in names}
    with running(commands) as children:
        printed = [child.output(TIMEOUT).splitlines() for child in children]
    found = ([json.loads(line) for line in lines if line.startswith("{")] for lines in printed)
    return dict(zip(names, found, strict=True))


def _too_slow(study: Study) -> bool:
    return study.dtype == "float16" and max(study.ds) ** 2 * study.k * 2 > HALF_FLOPS


def _notes(study: Study, answers: dict[str, dict[str, object]]) -> tuple[str, ...]:
    notes = [
        f"{name}: precision={study.precision!r} changed no bit: it is ignored on the CPU. Use --emulate, or the device"
        for name, answer in answers.items()
        if answer["ignored"]
    ]
    if "torch" not in answers:
        notes.append("torch is left out: it multiplies float16 on a CPU at 0.3 GFLOP/s")
    return tuple(notes)


def measure(
    a: np.ndarray,
    b: np.ndarray,
    products: dict[str, np.ndarray],
    study: Study,
    notes: tuple[str, ...] = (),
    versions: dict[str, str] | None = None,
) -> MatmulResult:
    """The products, and those emulated, against the reference; in blocks of rows, so that nothing of d² is float64."""
    emulated = {n: f for name in study.emulations for n, f in emulate.EMULATIONS[name].items()}
    products = products | {name: product(a, b) for name, product in emulated.items()}
    started = time.perf_counter()
    dtype, (d, k) = study.dtype, a.shape
    certificate = reference.certificate(a, b, dtype)
    # one BLAS thread: on blocks of this size waking a second one costs more than it computes
    with threadpool_limits(1):
        exact = certificate.exact and study.reference == "proved"
        freivalds = Freivalds(a, b, study.seed) if exact else None
        sampler = Sampler(d, b.shape[1], MPMATH_ENTRIES, study.seed)
        sums = {name: Sums(reference.unit_roundoff(dtype)) for name in products}
        magnitude = np.abs(b).astype(np.float64)
        blocks = reference.mpmath_rows(a, b) if study.reference == "mpmath" else reference.product(a, b, dtype)
        square, differing = 0.0, 0
        for rows, hi, lo in blocks:
            square += float(np.vdot(hi, hi))
            ulp = reference.units_in_last_place(hi, dtype)
            scale = np.abs(a[rows]).astype(np.float64) @ magnitude
            measured: list[tuple[np.ndarray, str]] = []
            for name, product in products.items():
                same = next((other for seen, other in measured if np.array_equal(seen, product[rows])), None)
                if same is None:
                    sums[name].add(hi, lo, product[rows], ulp, scale)
                    measured.append((product[rows], name))
                else:  # bit for bit what another one computed
                    sums[name].add_same(sums[same])
            if set(FRAMEWORKS) <= set(products):
                differing += int(np.count_nonzero(products["torch"][rows] != products["jax"][rows]))
            sampler.add(rows, hi, lo, scale)
            if freivalds is not None:
                freivalds.add(rows, hi, lo)
        count = d * b.shape[1]
        entries, off = sampler.mpmath_error(a, b, dtype)
    return MatmulResult(
        d=d,
        k=k,
        dtype=dtype,
        seed=study.seed,
        dist=study.dist,
        errors={name: total.result(count, square) for name, total in sums.items()},
        differing=differing / count if set(FRAMEWORKS) <= set(products) else math.nan,
        certificate=certificate,
        freivalds=None if freivalds is None else freivalds.passed,
        mpmath_entries=entries,
        mpmath_error=off,
        seconds=time.perf_counter() - started,
        notes=notes,
        versions=versions or {},
    )
