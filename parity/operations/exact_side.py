"""What the operations are, by the oracle: their definitions and the gradients of these, evaluated in high precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity.operations.jax_side import DEFINITIONS, differentiated
from parity.oracle import Arb, Mpmath, Numbers, exactly
from parity.oracle.numbers import agree

CHECKED = 64  # elements of an elementwise operation that the other oracle evaluates too


def evaluate(names: list[str], arrays: dict[str, list[np.ndarray]], oracle: str) -> dict[str, np.ndarray]:
    """Values and gradients under the names `op/exact/value`, `op/exact/grad0`, ..., each rounded once to float64.

    `op/exact/agreement` is how far mpmath and python-flint are apart where both were asked, NaN where one is missing.
    """
    jax.config.update("jax_enable_x64", True)  # literals of the definitions are float64
    numbers: Numbers = Mpmath() if oracle == "mpmath" else Arb()
    found: dict[str, np.ndarray] = {}
    for name in names:
        args = [jnp.asarray(array) for array in arrays[name]]
        run = differentiated(DEFINITIONS[name], args)
        value, gradients = exactly(run, *args, numbers=numbers)
        found[f"{name}/exact/value"] = numbers.floats(value)
        found |= {f"{name}/exact/grad{i}": numbers.floats(g) for i, g in enumerate(gradients)}
        found[f"{name}/exact/agreement"] = np.asarray(_agreement(name, args, numbers))
    return found


def _agreement(name: str, args: list[Any], numbers: Numbers) -> float:
    """The largest relative difference of mpmath's value and python-flint's, on a part of the inputs."""
    try:
        other: Numbers = Arb() if numbers.name == "mpmath" else Mpmath()
    except ImportError:
        return float("nan")
    part = [arg[:CHECKED] for arg in args] if len(args) == 1 and args[0].ndim == 1 else args
    first = exactly(DEFINITIONS[name], *part, numbers=numbers)
    second = exactly(DEFINITIONS[name], *part, numbers=other)
    return agree(numbers, first, other, second)
