"""A reference for matrix products: exact with its proof, or rounded with a bound; cross-checked by mpmath.

Entries of at most 26 significant bits multiply exactly in float64. What remains is the sum, in three tiers:

* Tier 0: the exponents leave no room for a rounding: a plain float64 product is exact, in any order.
* Tier 1: TwoSum returns each addition's rounding error exactly, and those add up without one: hi + lo *is* the product.
* Tier 2: neither is proved. hi has a stated bound, and every entry that the bound leaves undecided is computed anew by
  exact summation.

Which tier holds follows from the exponents of the inputs alone, before anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

# Significant bits of each type, and the exponent of its smallest normal number.
PRECISION = {"float32": 24, "bfloat16": 8, "float16": 11}
SMALLEST = {"float32": -126, "bfloat16": -126, "float16": -14}
BLOCK_ENTRIES = 2**16  # of full rows: the working set stays in the cache
MAX_TWO_SUM = 64  # longer sums cost more than computing anew what a float64 product leaves undecided
UNDECIDED_ULPS = 0.01  # of the type compared: an error of the reference that could change a figure in ULP


@dataclass(frozen=True)
class Certificate:
    """Whether hi + lo is exact: the exponent range that the inputs use, and the ranges in which nothing can round."""

    spread: int
    allowed: int
    allowed_plain: int
    inner: int

    @property
    def tier(self) -> int:
        if self.spread <= self.allowed_plain:
            return 0
        return 1 if self.spread <= self.allowed and self.inner <= MAX_TWO_SUM else 2

    @property
    def exact(self) -> bool:
        return self.tier < 2


def certificate(a: np.ndarray, b: np.ndarray, dtype: str) -> Certificate:
    """For a [n, k] and b [k, m] whose entries have the significant bits of `dtype`.

    Products are multiples of q, the product of the smallest units of a and b, and partial sums stay below a power of
    two; the error terms are multiples of q too, and k - 1 of them need at most 53 bits if the exponents of a and b
    together spread over no more than `allowed` powers of two.
    """
    inner = a.shape[1]
    growth = _ceil_log2(inner) + _ceil_log2(max(inner - 1, 1))
    products = 2 * (PRECISION[dtype] - 1) + 2
    plain = 53 - products - _ceil_log2(inner)
    return Certificate(_spread(a) + _spread(b), 2 * 53 - products - growth, plain, inner)


def _ceil_log2(n: int) -> int:
    return (n - 1).bit_length()


def _spread(array: np.ndarray) -> int:
    exponents = np.frexp(array[array != 0].astype(np.float64))[1]
    return int(exponents.max() - exponents.min()) if exponents.size else 0


def rows_of(n: int, m: int) -> Iterator[slice]:
    """Blocks of full rows."""
    size = max(1, BLOCK_ENTRIES // max(m, 1))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


Block = tuple[slice, np.ndarray, np.ndarray]


def product(a: np.ndarray, b: np.ndarray, dtype: str) -> Iterator[Block]:
    """The product in blocks of rows, (rows, hi, lo), by the cheapest tier that is proved to hold."""
    tier = certificate(a, b, dtype).tier
    if tier == 0:
        wide = b.astype(np.float64)
        for rows in rows_of(len(a), b.shape[1]):
            hi = a[rows].astype(np.float64) @ wide
            yield rows, hi, np.zeros_like(hi)
    elif tier == 1:
        yield from exact_product(a, b)
    else:
        yield from bounded_product(a, b, dtype)


def exact_product(a: np.ndarray, b: np.ndarray) -> Iterator[Block]:
    """The product in blocks of rows: (rows, hi, lo), float64; hi + lo is exact where the certificate says so."""
    wide = b.astype(np.float64)
    for rows in rows_of(len(a), b.shape[1]):
        left = a[rows].astype(np.float64)
        hi = left[:, :1] * wide[0]
        lo = np.zeros_like(hi)
        product, total, virtual = np.empty_like(hi), np.empty_like(hi), np.empty_like(hi)
        for j in range(1, wide.shape[0]):
            np.multiply(left[:, j : j + 1], wide[j], out=product)
            np.add(hi, product, out=total)
            np.subtract(total, hi, out=virtual)
            product -= virtual  # the part of the product that the sum lost
            np.subtract(total, virtual, out=virtual)
            hi -= virtual  # the part of the earlier sum that it lost
            lo += hi
            lo += product
            hi, total = total, hi
        yield rows, hi, lo


def bounded_product(a: np.ndarray, b: np.ndarray, dtype: str) -> Iterator[Block]:
    """A float64 product with the bound k 2^-53 |A||B|; what that leaves undecided is summed exactly."""
    wide = b.astype(np.float64)
    magnitude = np.abs(wide)
    for rows in rows_of(len(a), b.shape[1]):
        left = a[rows].astype(np.float64)
        hi = left @ wide
        bound = left.shape[1] * 2.0**-53 * (np.abs(left) @ magnitude)
        for i, j in np.argwhere(bound > UNDECIDED_ULPS * units_in_last_place(hi, dtype)):
            hi[i, j] = math.fsum(left[i] * wide[:, j])
        yield rows, hi, np.zeros_like(hi)


def mpmath_rows(a: np.ndarray, b: np.ndarray) -> Iterator[Block]:
    """Everything in mpmath, a row at a time: hi is the product rounded to float64, lo the rest."""
    columns = [[float(x) for x in b[:, j]] for j in range(b.shape[1])]
    for i, row in enumerate(a):
        left = [float(x) for x in row]
        with mpmath.workprec(600):
            exact = [mpmath.fdot(left, column) for column in columns]
            hi = [float(x) for x in exact]
            lo = [float(x - h) for x, h in zip(exact, hi, strict=True)]
        yield slice(i, i + 1), np.array([hi]), np.array([lo])


def mpmath_product(a: np.ndarray, b: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> list[Any]:
    """Entries (rows[i], columns[i]) of the product as mpmath numbers; 600 bits hold them exactly."""
    with mpmath.workprec(600):
        return [
            mpmath.fdot([float(x) for x in a[row]], [float(x) for x in b[:, column]])
            for row, column in zip(rows, columns, strict=True)
        ]


def units_in_last_place(values: np.ndarray, dtype: str) -> np.ndarray:
    """The spacing of `dtype` at each of the values, as float64: read off the bits of their exponents."""
    exponent = np.ascontiguousarray(values, np.float64).view(np.int64) & 0x7FF0000000000000
    power = exponent.view(np.float64)
    return np.maximum(power, math.ldexp(1.0, SMALLEST[dtype])) * math.ldexp(1.0, 1 - PRECISION[dtype])


def unit_roundoff(dtype: str) -> float:
    return math.ldexp(1.0, -PRECISION[dtype])
