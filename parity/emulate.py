"""The matrix product of an accelerator, computed on the CPU by explicit operand slices.

`precision=` cannot do it: on the CPU JAX accepts the argument for float32 operands and ignores it. Products of two
bfloat16 numbers are exact in float32, so slices multiplied in float32 and added, smallest terms first, are what one,
three or six passes of a TPU compute (but for the order and width of its accumulator, which is not modelled).
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def bfloat16(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def truncated_bfloat16(x: np.ndarray) -> np.ndarray:
    """The upper half of the bits: rounds towards zero, which biases every product."""
    return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def tf32(x: np.ndarray) -> np.ndarray:
    """Ten bits of mantissa, rounded to nearest even."""
    bits = x.astype(np.float32).view(np.uint32)
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    return ((bits + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)).view(np.float32)


def _slices(x: np.ndarray, count: int) -> list[np.ndarray]:
    """x as a sum of `count` bfloat16 numbers; three hold any normal float32 exactly."""
    parts, rest = [], x.astype(np.float32)
    for _ in range(count):
        parts.append(bfloat16(rest))
        rest = rest - parts[-1]
    return parts


def _passes(pairs: list[tuple[int, int]]) -> Product:
    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        count = 1 + max(max(pair) for pair in pairs)
        left, right = _slices(a, count), _slices(b, count)
        total = left[pairs[0][0]] @ right[pairs[0][1]]
        for i, j in pairs[1:]:
            total += left[i] @ right[j]
        return total

    return product


def _rounded(rounding: Callable[[np.ndarray], np.ndarray]) -> Product:
    return lambda a, b: rounding(a) @ rounding(b)


_THREE = [(1, 0), (0, 1), (0, 0)]
_SIX = [(2, 0), (0, 2), (1, 1), *_THREE]

EMULATIONS: dict[str, dict[str, Product]] = {
    "tpu": {
        "TPU default": _passes([(0, 0)]),
        "TPU high": _passes(_THREE),
        "TPU highest": _passes(_SIX),
        "bf16 truncated": _rounded(truncated_bfloat16),
    },
    "tf32": {"TF32": _rounded(tf32)},
}
