"""A certificate over every entry of a product: R x = A (B x) for a random x, modulo the prime 2^31 - 1.

Every finite float is an integer times a power of two, so it has a residue, and hi + lo has one that no rounding can
touch. Where one entry of R is wrong, a random x shows it but for one time in 2^31. Multiplying by a power of two modulo
2^31 - 1 is a rotation of 31 bits: no division is needed.
"""

from __future__ import annotations

import numpy as np

PRIME = 2**31 - 1
_MANTISSA = np.int64(2**52 - 1)
_ROTATION = np.arange(2048, dtype=np.int64)
_ROTATION = (_ROTATION - 1075) % 31


def residues(values: np.ndarray) -> np.ndarray:
    """Each float64 modulo the prime, as int64 in (-2^33, 2^33): not reduced whole."""
    bits = np.ascontiguousarray(values).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & _MANTISSA
    mantissa |= (exponent > 0).astype(np.int64) << 52
    mantissa = (mantissa & PRIME) + (mantissa >> 31)
    mantissa <<= _ROTATION[np.maximum(exponent, 1)]
    mantissa = (mantissa & PRIME) + (mantissa >> 31)
    return np.where(bits < 0, -mantissa, mantissa)


class Freivalds:
    """Checks the blocks of a product as they come. Each round multiplies the chance of a miss by 2^-31."""

    def __init__(self, a: np.ndarray, b: np.ndarray, seed: int) -> None:
        random = np.random.RandomState(seed + 7)
        x = random.randint(0, PRIME, b.shape[1], dtype=np.int64)
        self._x = np.stack([x >> 16, x & 0xFFFF], axis=1).astype(np.float64)  # two halves of at most 16 bits
        inner = self._times_x(residues(b.astype(np.float64)))
        left = residues(a.astype(np.float64)) % PRIME
        expected = np.zeros(len(a), np.int64)
        for j, value in enumerate(inner):
            expected = (expected + left[:, j] * value) % PRIME
        self._expected = expected
        self.rows = self.wrong = 0

    def _times_x(self, values: np.ndarray) -> np.ndarray:
        """values [n, m] of at most 34 bits, times x, modulo the prime.

        In halves of 18 and 16 bits: a product has 34 bits, so that 2^19 of them add up exactly in float64, whose matrix
        product is the fastest way to add integers.
        """
        high, low = values >> 16, values & 0xFFFF
        upper, lower = high.astype(np.float64) @ self._x, low.astype(np.float64) @ self._x
        total = np.zeros(len(values), np.int64)
        for part, power in ((upper[:, 0], 32), (upper[:, 1], 16), (lower[:, 0], 16), (lower[:, 1], 0)):
            total = (total + part.astype(np.int64) % PRIME * pow(2, power, PRIME)) % PRIME
        return total

    def add(self, rows: slice, hi: np.ndarray, lo: np.ndarray) -> None:
        total = residues(hi)
        if lo.any():
            total += residues(lo)
        self.wrong += int(np.count_nonzero(self._times_x(total) != self._expected[rows]))
        self.rows += len(hi)

    @property
    def passed(self) -> bool:
        return self.rows == len(self._expected) and not self.wrong
