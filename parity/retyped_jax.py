"""JAX in another float: a rewritten script runs as it is, in float64 or upon weights and data in bfloat16.

In float64 `jnp.float32` names float64, and `jnp.int32` int64: optax counts its steps in int32, and a schedule of an
int32 count is a float32 whatever the rest is. In bfloat16 no name is changed, for Flax asks by it for the float32 in
which it sums: weights and arrays of numpy are bfloat16, and the rest follows by JAX's own promotion.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity.child import patch

_REPLACED = {
    "float64": (np.dtype(np.float32), np.dtype(np.float16), jnp.bfloat16.dtype),
    "bfloat16": (np.dtype(np.float32), np.dtype(np.float16)),
}


class Retyped:
    """What is of a type that `name` (float64 or bfloat16) replaces is turned into it. "float32" replaces nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.target = np.dtype(name)  # bfloat16 is known to numpy by ml_dtypes
        self.replaced = _REPLACED.get(name, ())

    def install(self) -> None:
        """From here on this process computes in the type."""
        if self.name == "float64":
            jax.config.update("jax_enable_x64", True)
            for narrow in ("float32", "float16", "bfloat16"):
                patch(jnp, narrow, jnp.float64)
            patch(jnp, "int32", jnp.int64)
        for name in ("array", "asarray"):
            patch(jnp, name, self._from_numpy(getattr(jnp, name)))

    def _from_numpy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def array(object: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
            foreign = hasattr(object, "__array__") and not isinstance(object, jax.Array)  # numpy's and torch's
            if self.name == "float64" or foreign:
                dtype = self.dtype(dtype)
            return original(self.array(np.asarray(object) if foreign else object), dtype, *args, **kwargs)

        return array

    def dtype(self, dtype: Any) -> Any:
        """A type, or None, that an array is asked to have."""
        try:
            return self.target if dtype is not None and np.dtype(dtype) in self.replaced else dtype
        except TypeError:
            return dtype

    def array(self, value: Any) -> Any:
        """A numpy array or scalar in the type; everything else as it is."""
        replaced = isinstance(value, (np.ndarray, np.generic)) and value.dtype in self.replaced
        return value.astype(self.target) if replaced else value

    def arguments(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A compiled function whose numpy arguments are turned on the way in."""
        if not self.replaced:
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = jax.tree.map(self.array, (args, kwargs))
            return function(*args, **kwargs)

        return call
