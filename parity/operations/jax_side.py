"""What JAX computes: every operation as the rewriter writes it, and as Flax's layers have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from parity.operations.programs import functions
from parity.operations.sampling import weights
from parity.operations.table import OPERATIONS

Array = jax.Array


MODES: dict[str, dict[str, bool] | None] = {
    "jit": {},
    "jit without excess precision": {"xla_allow_excess_precision": False},
    "eager": None,
}


def programs(text: str) -> Callable[[str], Callable[..., Any]]:
    """The operations of a rewritten file, by name; those that are layers of Flax as such."""
    rewritten = functions(text, lambda module: lambda *inputs: module.apply({}, *inputs))
    return lambda name: _layer(OPERATIONS[name].flax) if OPERATIONS[name].flax else rewritten(name)


def _layer(made: str) -> Callable[..., Any]:
    """A normalisation with given weights; channels are on axis 1, which Flax has last."""
    layer = eval(made, {"nn": nn})

    def run(x: Array, scale: Array, *bias: Array) -> Array:
        statistics = {"mean": jnp.zeros_like(scale), "var": jnp.ones_like(scale)}
        variables = {"params": dict(zip(("scale", "bias"), (scale, *bias), strict=False)), "batch_stats": statistics}
        last = x.swapaxes(1, -1)
        return layer.apply(variables, last, mutable=["batch_stats"])[0].swapaxes(1, -1)

    return run


def differentiated(function: Callable[..., Array], by: Sequence[int]) -> Callable[..., tuple[Array, Any]]:
    """The value, and the gradients of its weighted sum by some of the arguments."""

    def run(*inner: Array) -> tuple[Array, Any]:
        def weighted(*inner: Array) -> tuple[Array, Array]:
            value = function(*inner)
            return jnp.sum(value * jnp.asarray(weights(value.shape), value.dtype)), value

        gradients, value = jax.grad(weighted, tuple(by), has_aux=True)(*inner)
        return value, gradients

    return run


def evaluate(text: str, arrays: dict[str, list[np.ndarray]], dtype: str) -> dict[str, np.ndarray]:
    """Values and gradients in each mode, under the names `op/jit/value`, `op/jit/grad0`, ...; at a point under jit
    alone, `op@point/jit/...`."""
    found: dict[str, np.ndarray] = {}
    program = programs(text)
    compiled: dict[str, Any] = {}
    for key, inputs in arrays.items():
        name, _, point = key.partition("@")
        args = [jnp.asarray(a, dtype) if a.dtype.kind == "f" else jnp.asarray(a) for a in inputs]
        run = differentiated(program(name), OPERATIONS[name].differentiable(inputs))
        if point:
            compiled.setdefault(name, jax.jit(run))
            found |= _parts(f"{key}/jit", *compiled[name](*args))
            continue
        for mode, options in MODES.items():
            if options and dtype == "float32":
                continue  # nothing is kept in more bits than float32
            called = run if options is None else jax.jit(run, compiler_options=options)
            found |= _parts(f"{key}/{mode}", *called(*args))
    return found


def _parts(key: str, value: Array, gradients: Any) -> dict[str, np.ndarray]:
    parts = {"value": value} | {f"grad{i}": gradient for i, gradient in enumerate(gradients)}
    return {f"{key}/{part}": np.asarray(found, np.float64) for part, found in parts.items()}
