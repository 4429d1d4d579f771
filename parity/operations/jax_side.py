"""What JAX computes, as a rewritten script would call it; and the definitions, which the oracle evaluates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import erfc, gammaln

from parity.operations.table import OPERATIONS, weights

Array = jax.Array


def _normalised(x: Array, axes: int | tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axes, keepdims=True) + epsilon)


def _channels(weight: Array) -> Array:
    return weight[:, None]


def _applied(layer: nn.Module, variables: Any, x: Array) -> Any:
    return layer.apply(variables, x)


def _layer_norm(x: Array, w: Array, b: Array) -> Array:
    return _applied(nn.LayerNorm(epsilon=1e-5), {"params": {"scale": w, "bias": b}}, x)


def _batch_norm(x: Array, w: Array, b: Array) -> Array:
    statistics = {"mean": jnp.zeros_like(w), "var": jnp.ones_like(w)}
    variables = {"params": {"scale": w, "bias": b}, "batch_stats": statistics}
    layer = nn.BatchNorm(use_running_average=False, epsilon=1e-5)
    return layer.apply(variables, x.swapaxes(1, 2), mutable=["batch_stats"])[0].swapaxes(1, 2)


def _group_norm(x: Array, w: Array, b: Array) -> Array:
    layer = nn.GroupNorm(4, epsilon=1e-5)
    return _applied(layer, {"params": {"scale": w, "bias": b}}, x.swapaxes(1, 2)).swapaxes(1, 2)


def _rms_norm(x: Array, w: Array) -> Array:
    return _applied(nn.RMSNorm(epsilon=1e-6), {"params": {"scale": w}}, x)


def _conv(x: Array, w: Array, b: Array) -> Array:
    return jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1))) + b[:, None, None]


def _smooth_cross_entropy(x: Array, y: Array) -> Array:
    return optax.softmax_cross_entropy(
        x, optax.smooth_labels(jax.nn.one_hot(y, x.shape[-1], dtype=x.dtype), 0.1)
    ).mean()


def _kl(x: Array, y: Array) -> Array:
    return jnp.sum(y * (jnp.log(y) - jax.nn.log_softmax(x))) / x.shape[0]


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "exp": jnp.exp,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "sqrt": jnp.sqrt,
    "rsqrt": jax.lax.rsqrt,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "silu": jax.nn.silu,
    "erf": jax.scipy.special.erf,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "elu": jax.nn.elu,
    "mish": jax.nn.mish,
    "lgamma": gammaln,
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1, ddof=1),
    "norm": lambda x: jnp.linalg.norm(x, axis=-1),
    "prod": lambda x: x.prod(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "logsumexp": lambda x: jax.nn.logsumexp(x, -1),
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "cross_entropy": lambda x, y: optax.softmax_cross_entropy_with_integer_labels(x, y).mean(),
    "label_smoothing": _smooth_cross_entropy,
    "kl_div": _kl,
    "mse_loss": lambda x, y: jnp.mean((x - y) ** 2),
    "l1_loss": lambda x, y: jnp.mean(jnp.abs(x - y)),
    "smooth_l1_loss": lambda x, y: optax.huber_loss(x, y).mean(),
    "bce_with_logits": lambda x, y: optax.sigmoid_binary_cross_entropy(x, y).mean(),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "attention": jax.nn.dot_product_attention,
    "causal_attention": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
    "linear": lambda x, w, b: x @ w.T + b,
    "conv2d": _conv,
}


def _softmax(x: Array) -> Array:
    raised = jnp.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _attention(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(jnp.asarray(q.shape[-1], q.dtype))
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", _softmax(scores), v)


def _cross_entropy(x: Array, y: Array, smoothing: float) -> Array:
    logs = jnp.log(_softmax(x))
    at = jnp.take_along_axis(logs, y[:, None], 1)[:, 0]
    return -jnp.mean((1 - smoothing) * at + smoothing * logs.mean(-1))


def _softplus(x: Array) -> Array:
    return jnp.log1p(jnp.exp(x))


# The mathematics, without any care for rounding: the oracle has bits to spare. What is not here is as in FUNCTIONS.
DEFINITIONS: dict[str, Callable[..., Array]] = FUNCTIONS | {
    "sigmoid": lambda x: 1 / (1 + jnp.exp(-x)),
    "softplus": _softplus,
    "silu": lambda x: x / (1 + jnp.exp(-x)),
    "gelu": lambda x: x * erfc(-x / jnp.sqrt(jnp.asarray(2, x.dtype))) / 2,
    # 1 + tanh(u) = 2 / (1 + exp(-2u))
    "gelu_tanh": lambda x: x / (1 + jnp.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "elu": lambda x: jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0)) - 1),
    "mish": lambda x: x * jnp.tanh(_softplus(x)),
    "var": lambda x: jnp.sum((x - x.mean(-1, keepdims=True)) ** 2, -1) / (x.shape[-1] - 1),
    "norm": lambda x: jnp.sqrt(jnp.sum(x * x, -1)),
    "logsumexp": lambda x: jnp.log(jnp.sum(jnp.exp(x), -1)),
    "softmax": _softmax,
    "log_softmax": lambda x: jnp.log(_softmax(x)),
    "cross_entropy": lambda x, y: _cross_entropy(x, y, 0.0),
    "label_smoothing": lambda x, y: _cross_entropy(x, y, 0.1),
    "kl_div": lambda x, y: jnp.sum(y * (jnp.log(y) - jnp.log(_softmax(x)))) / x.shape[0],
    "smooth_l1_loss": lambda x, y: jnp.mean(
        jnp.where(jnp.abs(x - y) < 1, (x - y) ** 2 / 2, jnp.abs(x - y) - 0.5)
    ),
    "bce_with_logits": lambda x, y: jnp.mean(_softplus(x) - x * y),
    "layer_norm": lambda x, w, b: _normalised(x, -1, 1e-5) * w + b,
    "rms_norm": lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w,
    "batch_norm": lambda x, w, b: _normalised(x, (0, 2), 1e-5) * _channels(w) + _channels(b),
    "group_norm": lambda x, w, b: (
        _normalised(x.reshape(x.shape[0], 4, -1), -1, 1e-5).reshape(x.shape) * _channels(w) + _channels(b)
    ),
    "attention": lambda q, k, v: _attention(q, k, v, causal=False),
    "causal_attention": lambda q, k, v: _attention(q, k, v, causal=True),
}  # fmt: skip

MODES: dict[str, dict[str, bool] | None] = {
    "jit": {},
    "jit without excess precision": {"xla_allow_excess_precision": False},
    "eager": None,
}


def differentiated(function: Callable[..., Array], args: list[Any]) -> Callable[..., tuple[Array, Any]]:
    """The value, and the gradients of its weighted sum by the floats among the arguments."""
    floats = tuple(i for i, arg in enumerate(args) if jnp.issubdtype(arg.dtype, jnp.floating))

    def run(*inner: Array) -> tuple[Array, Any]:
        def weighted(*inner: Array) -> tuple[Array, Array]:
            value = function(*inner)
            return jnp.sum(value * jnp.asarray(weights(value.shape), value.dtype)), value

        gradients, value = jax.grad(weighted, floats, has_aux=True)(*inner)
        return value, gradients

    return run


def evaluate(names: list[str], arrays: dict[str, list[np.ndarray]], dtype: str) -> dict[str, np.ndarray]:
    """Values and gradients in each mode, under the names `op/jit/value`, `op/jit/grad0`, ..."""
    found: dict[str, np.ndarray] = {}
    for name in names:
        args = [jnp.asarray(a, dtype) if a.dtype.kind == "f" else jnp.asarray(a) for a in arrays[name]]
        run = differentiated(FUNCTIONS[name], args)
        for mode, options in MODES.items():
            called = run if options is None else jax.jit(run, compiler_options=options)
            value, gradients = called(*args)
            found[f"{name}/{mode}/value"] = np.asarray(value, np.float64)
            found |= {f"{name}/{mode}/grad{i}": np.asarray(g, np.float64) for i, g in enumerate(gradients)}
        if OPERATIONS[name].elementwise:
            special = jnp.asarray(arrays[f"{name}/special"][0], dtype)
            found[f"{name}/jit/special"] = np.asarray(jax.jit(FUNCTIONS[name])(special), np.float64)
    return found
