"""What operations are fed: drawn in numpy, so that all sides get the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, TypeAlias

import numpy as np

Draw: TypeAlias = Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]
Points: TypeAlias = dict[str, tuple[Any, ...]]  # what is special about the inputs, and the inputs

SPECIAL = {
    "0": 0.0, "-0": -0.0, "inf": np.inf, "-inf": -np.inf, "nan": np.nan, "denormal": 1e-40, "-denormal": -1e-40,
    "largest": 3.4028235e38, "smallest normal": 1.1754944e-38, "1": 1.0, "-1": -1.0,
}  # fmt: skip
_PAIRED = ("0", "-0", "1", "-1", "inf", "-inf", "nan")


def at(*values: float) -> Points:
    """The special values of one number, and `values`: where a function bends or jumps."""
    return {name: (value,) for name, value in {**SPECIAL, **{f"{v:g}": v for v in values}}.items()}


def at_pairs(*more: tuple[float, float]) -> Points:
    """Pairs of special values, and `more`."""
    pairs = [*((SPECIAL[a], SPECIAL[b]) for a, b in product(_PAIRED, repeat=2)), *more]
    return {f"{a:g}, {b:g}": (float(a), float(b)) for a, b in pairs}


def log_uniform(low: float, high: float, *, signed: bool = True, around: float = 0.0) -> Draw:
    """Magnitudes from low to high, each power of two as likely as any other."""

    def draw(random: np.random.Generator, samples: int) -> tuple[np.ndarray, ...]:
        size = np.exp(random.uniform(np.log(low), np.log(high), samples))
        sign = random.choice([-1.0, 1.0], samples) if signed else 1.0
        return (around + sign * size,)

    return draw


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Draw:
    return lambda random, samples: tuple(random.normal(scale=scale, size=shape) for shape in shapes)


def uniform(shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Draw:
    return lambda random, samples: (random.uniform(low, high, shape),)


def signs(*shape: int) -> Draw:
    return lambda random, samples: (random.choice([-1.0, 1.0], shape),)


def counts(*shape: int) -> Draw:
    return lambda random, samples: (random.poisson(4.0, shape).astype(float),)


def classes(rows: int, number: int) -> Draw:
    return lambda random, samples: (random.integers(0, number, rows).astype(np.int32),)


def probabilities(rows: int, number: int) -> Draw:
    return lambda random, samples: (random.dirichlet(np.ones(number), rows),)


def together(*draws: Draw) -> Draw:
    """The inputs of several draws, one after another."""
    return lambda random, samples: tuple(array for draw in draws for array in draw(random, samples))


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """What an output is multiplied by before it is summed, to be differentiated: no symmetry hides an error. One
    number is its own sum."""
    return np.random.default_rng(7).uniform(0.5, 1.5, size=shape) if shape else np.ones(())
