"""Primitives that move numbers and compute none: each is run by JAX on an array of indices, which then picks them."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import jax.numpy as jnp
import numpy as np

from parity.oracle.numbers import Value, is_floating

MOVES = {
    "broadcast_in_dim", "concatenate", "copy", "copy_p", "dynamic_slice", "dynamic_update_slice", "expand_dims",
    "gather", "pad", "reshape", "rev", "select_n", "slice", "split", "squeeze", "transpose", "optimization_barrier",
}  # fmt: skip


def moved(equation: Any, values: list[Value], floats_in: list[bool]) -> list[Value]:
    """The primitive on indices of all numbers that go in, laid end to end; then the numbers that they pick."""
    sizes = [value.size if is_float else 0 for value, is_float in zip(values, floats_in, strict=True)]
    starts = [0, *accumulate(sizes)]
    indices = [
        jnp.arange(start, start + value.size, dtype=jnp.int32).reshape(value.shape) if is_float else value
        for value, start, is_float in zip(values, starts, floats_in, strict=False)
    ]
    params = dict(equation.params)
    if equation.primitive.name == "gather":
        params["fill_value"] = -1
    found = equation.primitive.bind(*indices, **params)
    pool = np.empty(starts[-1] + 1, object)
    for value, start, is_float in zip(values, starts, floats_in, strict=False):
        if is_float:
            pool[start : start + value.size] = value.reshape(-1)
    pool[-1] = float("nan")  # what a gather that reaches outside is filled with
    many = found if equation.primitive.multiple_results else [found]
    floats_out = [is_floating(atom.aval.dtype) for atom in equation.outvars]
    return [
        pool[np.asarray(index)] if is_float else index for index, is_float in zip(many, floats_out, strict=True)
    ]  # fmt: skip
