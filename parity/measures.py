"""How far apart two tensors or two losses are: always relative to the torch side."""

from __future__ import annotations

import math

import numpy as np


def rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(array, np.float64))))) if array.size else 0.0


def relative(reference: np.ndarray, other: np.ndarray) -> float:
    """RMS of the difference over the RMS of the reference; 0 where both are the same, NaN included."""
    reference, other = np.asarray(reference, np.float64), np.asarray(other, np.float64)
    if np.array_equal(reference, other, equal_nan=True):
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        same = (reference == other) | (np.isnan(reference) & np.isnan(other))
        difference = rms(np.where(same, 0.0, other - reference))
        size = rms(reference[np.isfinite(reference)])
    return difference / size if size > 0 else math.inf


def relative_scalar(reference: float, other: float) -> float:
    if reference == other or (math.isnan(reference) and math.isnan(other)):
        return 0.0
    return abs(other - reference) / abs(reference) if reference else math.inf


def has_nan(value: np.ndarray) -> bool:
    """Whether an array of any type holds a NaN."""
    return bool(np.issubdtype(value.dtype, np.inexact) and np.isnan(value).any())
