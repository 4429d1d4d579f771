"""The error of a product against its reference, gathered block by block, and the entries that mpmath checks."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import numpy as np

from parity import reference

SAMPLED = 13  # every so many entries go into the quantile


@dataclass(frozen=True)
class ProductError:
    """How far one product is from the reference. `scaled` is the largest error over u·|A||B|; `bias` the mean error in
    the direction of the exact value, over the mean error: -1 where every entry is too small."""

    max_abs: float
    rms: float
    relative_frobenius: float
    max_ulp: float
    p999_ulp: float
    scaled: float
    bias: float
    not_finite: int


class Sums:
    """Running maxima and sums of one product's errors."""

    def __init__(self, roundoff: float) -> None:
        self._roundoff = roundoff
        self.max_abs = self.max_ulp = self.scaled = self.square = self.signed = self.absolute = 0.0
        self.not_finite = 0
        self._sample: list[np.ndarray] = []
        self._last: tuple[float, ...] = ()

    def add(self, hi: np.ndarray, lo: np.ndarray, product: np.ndarray, ulp: np.ndarray, scale: np.ndarray) -> None:
        error = product - hi
        error -= lo
        finite = bool(np.isfinite(error.sum()))
        if not finite:
            self.not_finite += int(np.count_nonzero(~np.isfinite(error)))
            error = np.where(np.isfinite(error), error, np.abs(hi))
        signed = float(np.copysign(1.0, hi).ravel() @ error.ravel())
        square = float(np.vdot(error, error))
        np.abs(error, out=error)
        first = error.ravel()[::SAMPLED] / ulp.ravel()[::SAMPLED]
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = error / scale
        if not np.isfinite(scaled).all():
            scaled = np.where(scale > 0, scaled, 0.0)
        figures = (
            float(error.max()),
            float((error / ulp).max()),
            float(scaled.max()) / self._roundoff,
            square,
            signed,
            float(error.sum()),
        )
        self._include(figures, first)

    def add_same(self, other: Sums) -> None:
        """The same block as another product, bit for bit."""
        self._include(other._last, other._sample[-1])

    def _include(self, figures: tuple[float, ...], sample: np.ndarray) -> None:
        self._last = figures
        self._sample.append(sample)
        self.max_abs, self.max_ulp = max(self.max_abs, figures[0]), max(self.max_ulp, figures[1])
        self.scaled = max(self.scaled, figures[2])
        self.square += figures[3]
        self.signed += figures[4]
        self.absolute += figures[5]

    def result(self, count: int, reference_square: float) -> ProductError:
        frobenius = (self.square / reference_square) ** 0.5 if reference_square else 0.0
        p999 = float(np.quantile(np.concatenate([x.ravel() for x in self._sample]), 0.999))
        bias = self.signed / self.absolute if self.absolute else 0.0
        rms = (self.square / count) ** 0.5
        return ProductError(self.max_abs, rms, frobenius, self.max_ulp, p999, self.scaled, bias, self.not_finite)


class Sampler:
    """Entries for mpmath: half of them random, half those in which most of the sum cancelled."""

    def __init__(self, n: int, m: int, entries: int, seed: int) -> None:
        self._random = np.random.RandomState(seed + 1)
        self._rows, self._m, self._share = n, m, max(1, entries // 2)
        self._found: list[tuple[np.ndarray, ...]] = []
        self._cancelled: list[tuple[np.ndarray, ...]] = []

    def add(self, rows: slice, hi: np.ndarray, lo: np.ndarray, scale: np.ndarray) -> None:
        n, m = hi.shape
        count = -(-self._share * n // self._rows)
        at = self._random.randint(0, n, count), self._random.randint(0, m, count)
        self._found.append((at[0] + rows.start, at[1], hi[at], lo[at]))
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.abs(hi) / scale
        worst = max(1, -(-2 * self._share // self._rows))
        columns = left.argmin(axis=1)[:, None] if worst == 1 else np.argpartition(left, min(worst, m) - 1)[:, :worst]
        i = np.repeat(np.arange(n), columns.shape[1])
        j = columns.ravel()
        self._cancelled.append((i + rows.start, j, hi[i, j], lo[i, j], left[i, j]))

    def mpmath_error(self, a: np.ndarray, b: np.ndarray, dtype: str) -> tuple[int, float]:
        """How many entries were checked, and the largest deviation of the reference in units in the last place."""
        most = [np.concatenate(parts) for parts in zip(*self._cancelled, strict=True)]
        order = np.argsort(most[4], kind="stable")[: self._share]
        parts = [*self._found, tuple(x[order] for x in most[:4])]
        rows, columns, hi, lo = (np.concatenate(x) for x in zip(*parts, strict=True))
        exact = reference.mpmath_product(a, b, rows, columns)
        ulp = reference.units_in_last_place(hi, dtype)
        with mpmath.workprec(600):
            off = [abs(x - (mpmath.mpf(h) + mpmath.mpf(low))) for x, h, low in zip(exact, hi, lo, strict=True)]
            return len(off), max(float(error / float(unit)) for error, unit in zip(off, ulp, strict=True))
