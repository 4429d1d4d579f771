"""A reference for matrix products that is exact, with its proof, and cross-checked by mpmath.

Entries of at most 26 significant bits multiply exactly in float64. `exact_product` sums the products with TwoSum, which
returns each addition's rounding error exactly, and accumulates those errors. An a-priori certificate on the exponents
of the inputs says whether even that accumulation cannot round: then hi + lo *is* the product.
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
BLOCK_ROWS = 16  # full rows: the working set stays in the cache


@dataclass(frozen=True)
class Certificate:
    """Whether hi + lo is exact: the exponent range that the inputs use, and the range in which nothing can round."""

    spread: int
    allowed: int

    @property
    def exact(self) -> bool:
        return self.spread <= self.allowed


def certificate(a: np.ndarray, b: np.ndarray, dtype: str) -> Certificate:
    """For a [n, k] and b [k, m] whose entries have the significant bits of `dtype`.

    Products are multiples of q, the product of the smallest units of a and b, and partial sums stay below a power of
    two; the error terms are multiples of q too, and k - 1 of them need at most 53 bits if the exponents of a and b
    together spread over no more than `allowed` powers of two.
    """
    inner = a.shape[1]
    growth = _ceil_log2(inner) + _ceil_log2(max(inner - 1, 1))
    return Certificate(_spread(a) + _spread(b), 2 * 53 - 2 * (PRECISION[dtype] - 1) - 2 - growth)


def _ceil_log2(n: int) -> int:
    return (n - 1).bit_length()


def _spread(array: np.ndarray) -> int:
    exponents = np.frexp(array[array != 0].astype(np.float64))[1]
    return int(exponents.max() - exponents.min()) if exponents.size else 0


def exact_product(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """The product in blocks of rows: (rows, hi, lo), float64; hi + lo is exact where the certificate says so."""
    wide = b.astype(np.float64)
    for start in range(0, a.shape[0], BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, a.shape[0]))
        left = a[rows].astype(np.float64)
        hi = left[:, :1] * wide[0]
        lo = np.zeros_like(hi)
        for j in range(1, wide.shape[0]):
            product = left[:, j : j + 1] * wide[j]
            total = hi + product
            virtual = total - hi
            lo += (hi - (total - virtual)) + (product - virtual)
            hi = total
        yield rows, hi, lo


def mpmath_product(a: np.ndarray, b: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> list[Any]:
    """Entries (rows[i], columns[i]) of the product as mpmath numbers; 600 bits hold them exactly."""
    with mpmath.workprec(600):
        return [
            mpmath.fdot([float(x) for x in a[row]], [float(x) for x in b[:, column]])
            for row, column in zip(rows, columns, strict=True)
        ]


def units_in_last_place(values: np.ndarray, dtype: str) -> np.ndarray:
    """The spacing of `dtype` at each of the values, as float64."""
    exponent = np.frexp(values)[1] - 1
    return np.ldexp(1.0, np.maximum(exponent, SMALLEST[dtype]) - (PRECISION[dtype] - 1))


def unit_roundoff(dtype: str) -> float:
    return math.ldexp(1.0, -PRECISION[dtype])
