"""Both frameworks' matrix product on the same bits, each against an exact reference: `migrate parity --d 4096`.

The maximum error grows with d because more entries are drawn from the same distribution, not because entries get
worse: RMS and relative Frobenius error stay flat. Errors in units in the last place look huge where a sum cancels: the
error over u·|A||B| is the one that theory bounds, by about k.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
from rich.console import Console
from rich.table import Table

from parity import reference
from parity.codes import ParityError
from parity.compare import environment

MPMATH_ENTRIES = 256
FRAMEWORKS = ("torch", "jax")


@dataclass(frozen=True)
class ProductError:
    """How far one framework's product is from the reference. `scaled` is the largest error over u·|A||B|."""

    max_abs: float
    rms: float
    relative_frobenius: float
    max_ulp: float
    scaled: float


@dataclass(frozen=True)
class MatmulResult:
    """`differing` is the share of entries in which the frameworks differ; `mpmath_error` the largest deviation of the
    reference from mpmath over the entries checked, in units of the last place of `dtype`."""

    d: int
    k: int
    dtype: str
    seed: int
    errors: dict[str, ProductError]
    differing: float
    certificate: reference.Certificate
    mpmath_entries: int
    mpmath_error: float


def matmul_parity(d: int, dtype: str = "float32", seed: int = 0, *, k: int = 4) -> MatmulResult:
    """[d, k] x [k, d] of standard normal numbers. Raises ParityError for wrong arguments and failing frameworks."""
    if dtype not in reference.PRECISION:
        raise ParityError("PAR211", f"dtype {dtype!r}: known are {', '.join(reference.PRECISION)}")
    if d < 1 or k < 1:
        raise ParityError("PAR211", f"d = {d}, k = {k}: both must be at least 1")
    random = np.random.RandomState(seed)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a, b = (random.standard_normal(shape).astype(kind).astype(np.float32) for shape in ((d, k), (k, d)))
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        products = {name: _product(name, a, b, dtype, Path(folder)) for name in FRAMEWORKS}
    return _measure(a, b, products, dtype, seed)


def _product(framework: str, a: np.ndarray, b: np.ndarray, dtype: str, folder: Path) -> np.ndarray:
    """The product computed by one framework, in a process of its own, widened to float32."""
    inputs, output = folder / "inputs.npz", folder / f"{framework}.npy"
    np.savez(inputs, a=a, b=b)
    command = [sys.executable, "-m", "parity.matmul_child", framework, dtype, str(inputs), str(output)]
    done = subprocess.run(command, env=environment(1), capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ParityError("PAR210", f"the {framework} product failed:\n{tail}")
    return np.load(output)


def _measure(a: np.ndarray, b: np.ndarray, products: dict[str, np.ndarray], dtype: str, seed: int) -> MatmulResult:
    d, k = a.shape
    random = np.random.RandomState(seed + 1)
    sample = random.randint(0, d, (2, MPMATH_ENTRIES))
    sampled = np.zeros((2, MPMATH_ENTRIES))
    sums = {name: _Sums() for name in products}
    square = 0.0
    magnitude = np.abs(b).astype(np.float64)
    roundoff = reference.unit_roundoff(dtype)
    for rows, hi, lo in reference.exact_product(a, b):
        square += float(np.vdot(hi, hi))
        ulp = reference.units_in_last_place(hi, dtype)
        scale = roundoff * (np.abs(a[rows]).astype(np.float64) @ magnitude)
        for name, product in products.items():
            sums[name].add(np.abs((product[rows] - hi) - lo), ulp, scale)
        here = (sample[0] >= rows.start) & (sample[0] < rows.stop)
        at = (sample[0][here] - rows.start, sample[1][here])
        sampled[:, here] = hi[at], lo[at]
    return MatmulResult(
        d=d,
        k=k,
        dtype=dtype,
        seed=seed,
        errors={name: total.result(d * d, square) for name, total in sums.items()},
        differing=float(np.mean(products["torch"] != products["jax"])),
        certificate=reference.certificate(a, b, dtype),
        mpmath_entries=MPMATH_ENTRIES,
        mpmath_error=_mpmath_error(a, b, sample, sampled, dtype),
    )


class _Sums:
    """Running maxima and sum of squares of one framework's errors."""

    def __init__(self) -> None:
        self.max_abs = self.max_ulp = self.scaled = self.square = 0.0

    def add(self, error: np.ndarray, ulp: np.ndarray, scale: np.ndarray) -> None:
        self.max_abs = max(self.max_abs, float(error.max()))
        self.max_ulp = max(self.max_ulp, float((error / ulp).max()))
        self.scaled = max(self.scaled, float(np.divide(error, scale, where=scale > 0, out=np.zeros_like(error)).max()))
        self.square += float(np.vdot(error, error))

    def result(self, count: int, reference_square: float) -> ProductError:
        frobenius = (self.square / reference_square) ** 0.5 if reference_square else 0.0
        return ProductError(self.max_abs, (self.square / count) ** 0.5, frobenius, self.max_ulp, self.scaled)


def _mpmath_error(a: np.ndarray, b: np.ndarray, sample: np.ndarray, sampled: np.ndarray, dtype: str) -> float:
    exact = reference.mpmath_product(a, b, *sample)
    ulp = reference.units_in_last_place(sampled[0], dtype)
    with mpmath.workprec(600):
        off = [abs(x - (mpmath.mpf(hi) + mpmath.mpf(lo))) for x, hi, lo in zip(exact, *sampled, strict=True)]
        return max(float(error / float(unit)) for error, unit in zip(off, ulp, strict=True))


def render(result: MatmulResult, console: Console) -> None:
    """Print both frameworks side by side."""
    title = f"[{result.d}, {result.k}] x [{result.k}, {result.d}], {result.dtype}, seed {result.seed}"
    table = Table("", *result.errors, box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    rows = {
        "max |error|": "max_abs",
        "RMS error": "rms",
        "relative Frobenius error": "relative_frobenius",
        "max error in ULP": "max_ulp",
        "max error / u|A||B|": "scaled",
    }
    for label, field in rows.items():
        table.add_row(label, *(f"{getattr(error, field):.3g}" for error in result.errors.values()))
    console.print(table)
    console.print(f"entries in which the frameworks differ: {result.differing:.2%}")
    proof = result.certificate
    verdict = "proved exact" if proof.exact else "not proved exact"
    console.print(f"reference: {verdict} (exponents spread over {proof.spread}, {proof.allowed} allowed)")
    console.print(f"mpmath, {result.mpmath_entries} entries: off by at most {result.mpmath_error:.1e} ULP")
