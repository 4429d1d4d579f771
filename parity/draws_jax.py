"""Replaces the random draws of `jax.random` by the stand-in. Keys are accepted and ignored.

Shapes are static under `jit`, so a draw becomes a constant of the compiled program. Flax and optax draw through the
module `jax.random` too. Under `vmap` a draw sees the shape of one example: all examples get the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from parity import standin

_threshold = jnp.asarray  # kept: what is decided by a number may not turn with a run in bfloat16, which rounds numbers


def install() -> None:
    """Patch `jax.random` in this process, for good. Draws without a stand-in keep jax's own numbers."""
    for name, draw in _DRAWS.items():
        draw.__name__ = name
        setattr(jax.random, name, draw)
    jax.nn.initializers.normal.__globals__["random"] = jax.random  # what its functions draw from is private to JAX


def _float(dtype: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)


def _uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, **_: Any) -> Any:
    draws = standin.uniform01(_shape(shape))
    if isinstance(minval, (int, float)) and isinstance(maxval, (int, float)):
        return jnp.asarray(minval + (maxval - minval) * draws, _float(dtype))
    return (minval + (maxval - minval) * jnp.asarray(draws, _float(dtype))).astype(_float(dtype))


def _plain(values: Callable[[tuple[int, ...]], np.ndarray]) -> Callable[..., Any]:
    def draw(key: Any, shape: Any = (), dtype: Any = None, *args: Any, **_: Any) -> Any:
        return jnp.asarray(values(_shape(shape)), _float(dtype))

    return draw


def _randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, **_: Any) -> Any:
    dtype = jax.dtypes.canonicalize_dtype(int if dtype is None else dtype)
    if not any(isinstance(bound, Tracer) or np.ndim(bound) for bound in (minval, maxval)):
        return jnp.asarray(standin.randint(_shape(shape), int(minval), int(maxval)), dtype)
    draws = _threshold(standin.uniform01(_shape(shape)), _float(None))
    return jnp.minimum(jnp.floor(minval + (maxval - minval) * draws), maxval - 1).astype(dtype)


def _bernoulli(key: Any, p: Any = 0.5, shape: Any = None, *_: Any, **__: Any) -> Any:
    shape = jnp.shape(p) if shape is None else _shape(shape)
    return _threshold(standin.uniform01(shape), _float(None)) < p


def _categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True, *_: Any, **__: Any
) -> Any:
    logits = jnp.moveaxis(jnp.asarray(logits), axis, -1)
    shape = logits.shape[:-1] if shape is None else _shape(shape)
    extra = len(shape) - (logits.ndim - 1)
    if not replace:
        scores = logits + jnp.asarray(standin.gumbel(logits.shape), logits.dtype)
        best = jnp.argsort(-scores, axis=-1)[..., : int(np.prod(shape[:extra], dtype=int))]
        return jnp.moveaxis(best, -1, 0).reshape(shape)
    wide = logits.astype(jnp.promote_types(logits.dtype, np.float32))
    cdf = jnp.cumsum(jax.nn.softmax(wide, axis=-1), axis=-1)
    draws = _threshold(standin.uniform01(shape), cdf.dtype)
    below = cdf <= (draws * cdf[..., -1])[..., None]
    return jnp.minimum(below.sum(axis=-1), logits.shape[-1] - 1)


def _permutation(key: Any, x: Any, axis: int = 0, *_: Any, **__: Any) -> Any:
    if jnp.ndim(x) == 0:
        return jnp.asarray(standin.permutation(int(x)))
    return jnp.take(jnp.asarray(x), standin.permutation(jnp.shape(x)[axis]), axis=axis)


def _truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None, **_: Any) -> Any:
    values = standin.truncated_normal(_shape(() if shape is None else shape), float(lower), float(upper))
    return jnp.asarray(values, _float(dtype))


def _choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, *_: Any, **__: Any
) -> Any:
    items = jnp.arange(a) if jnp.ndim(a) == 0 else jnp.asarray(a)
    shape, size = _shape(shape), items.shape[axis]
    count = int(np.prod(shape, dtype=int))
    if p is None:
        index: Any = standin.randint(shape, 0, size) if replace else standin.permutation(size)[:count].reshape(shape)
    elif replace:
        index = _categorical(key, jnp.log(jnp.asarray(p)), shape=shape)
    else:
        index = _categorical(key, jnp.log(jnp.asarray(p)), shape=(count,), replace=False).reshape(shape)
    return jnp.take(items, jnp.asarray(index), axis=axis)


def _of_concentrations(values: Callable[[np.ndarray], np.ndarray], concentration: Any, dtype: Any) -> Any:
    """What is drawn is asked of numpy as the program runs, since under `jit` nothing is known before."""
    concentration = jnp.asarray(concentration, _float(None))
    drawn = jax.ShapeDtypeStruct(concentration.shape, concentration.dtype)
    given = jax.lax.stop_gradient(concentration)
    return jax.pure_callback(lambda a: values(np.asarray(a)).astype(drawn.dtype), drawn, given).astype(_float(dtype))


def _gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, **_: Any) -> Any:
    shape = jnp.shape(a) if shape is None else _shape(shape)
    return _of_concentrations(standin.gamma, jnp.broadcast_to(a, shape), dtype)


def _dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None, **_: Any) -> Any:
    shape = jnp.shape(alpha)[:-1] if shape is None else _shape(shape)
    return _of_concentrations(standin.dirichlet, jnp.broadcast_to(alpha, (*shape, jnp.shape(alpha)[-1])), dtype)


def _beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, **_: Any) -> Any:
    both = jnp.stack(jnp.broadcast_arrays(a, b), axis=-1)
    return _dirichlet(key, both, shape, dtype)[..., 0]


_DRAWS: dict[str, Callable[..., Any]] = {
    "uniform": _uniform,
    "normal": _plain(standin.normal),
    "gumbel": _plain(standin.gumbel),
    "exponential": _plain(standin.exponential),
    "randint": _randint,
    "bernoulli": _bernoulli,
    "categorical": _categorical,
    "permutation": _permutation,
    "truncated_normal": _truncated_normal,
    "choice": _choice,
    "gamma": _gamma,
    "dirichlet": _dirichlet,
    "beta": _beta,
}


def names() -> Sequence[str]:
    """The draws that have a stand-in, for the guide and the tests."""
    return tuple(_DRAWS)
