"""JAX in float64: a rewritten script runs as it is, and `jnp.float32` names float64.

`jnp.int32` names int64 too: optax counts its steps in int32, and a schedule of an int32 count is a float32 whatever the
rest is. Arrays of float32 that numpy brings are widened where they become JAX arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity.child import patch

_NARROW = (np.float32, np.float16, jnp.bfloat16.dtype)


def install() -> None:
    """From here on this process computes in float64."""
    jax.config.update("jax_enable_x64", True)
    for name in ("float32", "float16", "bfloat16"):
        patch(jnp, name, jnp.float64)
    patch(jnp, "int32", jnp.int64)
    for name in ("array", "asarray"):
        patch(jnp, name, _from_numpy(getattr(jnp, name)))


def _from_numpy(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def array(object: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(widened(object), _dtype(dtype), *args, **kwargs)

    return array


def _dtype(dtype: Any) -> Any:
    try:
        return np.float64 if dtype is not None and np.dtype(dtype) in _NARROW else dtype
    except TypeError:
        return dtype


def widened(value: Any) -> Any:
    """A numpy array or scalar of a narrower float as float64; everything else as it is."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype in _NARROW:
        return value.astype(np.float64)
    return value


def widened_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function whose numpy arguments are widened on the way in."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = jax.tree.map(widened, (args, kwargs))
        return function(*args, **kwargs)

    return call
