"""The stand-in for random numbers: a fixed function of shape and distribution, the same for both frameworks.

Two frameworks cannot be given the same random stream, so a comparison replaces the draws of both by numbers that
depend on nothing but the shape asked for. Three properties matter, and are surprising:

* No state. Two draws of one shape are the same numbers, whatever the key, the generator or the step.
* Equivariance. `uniform01` of a permuted shape is the permuted array, bit for bit, and axes of length one do not
  matter: a dropout mask drawn channel-last is the transpose of the mask drawn channel-first. (Axes of equal length
  cannot be told apart, so a square draw is symmetric.)
* Integers inside. Each axis has a table of 64-bit integers, one per index; an entry is their wrapped sum. Integer
  addition does not round, hence no order of summation can tell the two sides apart.

Everything here is numpy in float64; the callers cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

_OFFSET = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: the value of a draw without axes is 0.618
_STREAM_ORDER, _STREAM_JITTER = 1, 2


def _hash(index: np.ndarray, size: int, stream: int) -> np.ndarray:
    """SplitMix64 of (index, size, stream): 64 well mixed bits for each index."""
    with np.errstate(over="ignore"):
        z = (
            index.astype(np.uint64) * np.uint64(0xD1342543DE82EF95)
            + np.uint64((size * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
            + np.uint64((stream * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF)
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=256)
def _axis_table(size: int) -> np.ndarray:
    """One 64-bit fraction per index of an axis: a shuffled stratified sample, so even short axes fill (0, 1) evenly."""
    if size == 1:
        return np.zeros(1, np.uint64)
    index = np.arange(size)
    stratum = np.argsort(_hash(index, size, _STREAM_ORDER), kind="stable").astype(np.uint64)
    width = np.uint64((1 << 64) // size)
    table = stratum * width + _hash(index, size, _STREAM_JITTER) % width
    table.setflags(write=False)
    return table


def uniform01(shape: Sequence[int]) -> np.ndarray:
    """Numbers in the open interval (0, 1), float64, of the given shape; float32 holds each of them exactly."""
    bits = np.full(tuple(shape), _OFFSET, np.uint64)
    for axis, size in enumerate(bits.shape):
        bits += _axis_table(size).reshape([-1 if i == axis else 1 for i in range(bits.ndim)]) if size else 0
    return ((bits >> np.uint64(41)).astype(np.float64) + 0.5) * 2.0**-23


def _float32(values: np.ndarray) -> np.ndarray:
    """Rounded, so that a run in float64 starts from the numbers that a run in float32 has."""
    return values.astype(np.float32).astype(np.float64)


def uniform(shape: Sequence[int], low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return low + (high - low) * uniform01(shape)


def normal(shape: Sequence[int], mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    return mean + std * _float32(ndtri(uniform01(shape)))


def truncated_normal(shape: Sequence[int], lower: float, upper: float) -> np.ndarray:
    """Standard normal restricted to [lower, upper]."""
    low, high = ndtr(lower), ndtr(upper)
    return np.clip(_float32(ndtri(low + (high - low) * uniform01(shape))), lower, upper)


def exponential(shape: Sequence[int]) -> np.ndarray:
    """Rate 1, as -log(u); `gumbel` is minus its logarithm, the way `torch.nn.functional.gumbel_softmax` builds it."""
    return _float32(-np.log(uniform01(shape)))


def gumbel(shape: Sequence[int]) -> np.ndarray:
    return _float32(-np.log(exponential(shape)))


def gamma(concentration: np.ndarray) -> np.ndarray:
    """Rate 1, one for each concentration."""
    return _float32(_gamma(concentration))


def dirichlet(concentration: np.ndarray) -> np.ndarray:
    """Shares that add up to 1 along the last axis of the concentrations."""
    parts = _gamma(concentration)
    return _float32(parts / parts.sum(axis=-1, keepdims=True))


def _gamma(concentration: np.ndarray) -> np.ndarray:
    return gammaincinv(np.asarray(concentration, np.float64), uniform01(np.shape(concentration)))


def bernoulli(shape: Sequence[int], p: float | np.ndarray = 0.5) -> np.ndarray:
    """True with probability p."""
    return uniform01(shape) < p


def randint(shape: Sequence[int], low: int, high: int) -> np.ndarray:
    """Integers in [low, high), int64."""
    return np.minimum(np.floor(uniform(shape, low, high)), high - 1).astype(np.int64)


def permutation(size: int) -> np.ndarray:
    """A fixed permutation of range(size), int64."""
    return np.argsort(uniform01((size,)), kind="stable").astype(np.int64)


def categorical(weights: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Inverse CDF along the last axis: weights [..., classes] (not normalised) and uniforms [...] -> classes [...]."""
    cdf = np.cumsum(np.asarray(weights, np.float64), axis=-1)
    below = cdf <= (draws * cdf[..., -1])[..., None]
    return np.minimum(below.sum(axis=-1), cdf.shape[-1] - 1).astype(np.int64)


def without_replacement(weights: np.ndarray, count: int) -> np.ndarray:
    """`count` distinct classes for each row of weights [..., classes], by the largest log(weight) + gumbel."""
    with np.errstate(divide="ignore"):
        score = np.log(np.asarray(weights, np.float64)) + gumbel(np.shape(weights))
    return np.argsort(-score, axis=-1, kind="stable")[..., :count].astype(np.int64)
