"""The mathematics of the operations, without any care for rounding: the oracle that evaluates them has bits to spare.

What is not here is evaluated as the rewriter writes it.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc

Array = jax.Array


def _softmax(x: Array) -> Array:
    raised = jnp.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _attention(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return _softmax(scores) @ v


def _cross_entropy(x: Array, y: Array, smoothing: float = 0.0) -> Array:
    logs = jnp.log(_softmax(x))
    at = jnp.take_along_axis(logs, y[:, None], 1)[:, 0]
    return -jnp.mean((1 - smoothing) * at + (smoothing * logs.mean(-1) if smoothing else 0))


def _softplus(x: Array) -> Array:
    return jnp.log1p(jnp.exp(x))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + jnp.exp(-x))


def _normalised(x: Array, axes: int | tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axes, keepdims=True) + epsilon)


def _channels(weight: Array) -> Array:
    return weight[:, None]


def _layer_norm(x: Array, w: Array, b: Array) -> Array:
    return _normalised(x, -1, 1e-5) * w + b


def _rms_norm(x: Array, w: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w


def _batch_norm(x: Array, w: Array, b: Array) -> Array:
    return _normalised(x, (0, 2), 1e-5) * _channels(w) + _channels(b)


def _group_norm(x: Array, w: Array, b: Array) -> Array:
    return _normalised(x.reshape(x.shape[0], 4, -1), -1, 1e-5).reshape(x.shape) * _channels(w) + _channels(b)


def _var(x: Array) -> Array:
    return jnp.sum((x - x.mean(-1, keepdims=True)) ** 2, -1) / (x.shape[-1] - 1)


def _length(x: Array) -> Array:
    return jnp.sqrt(jnp.sum(x * x, -1))


def _cosine(x: Array, y: Array) -> Array:
    return jnp.sum(x * y, -1) / (_length(x) * _length(y))


def _huber(x: Array, y: Array, delta: float) -> Array:
    off = jnp.abs(x - y)
    return jnp.mean(jnp.where(off < delta, off**2 / 2, delta * (off - delta / 2)))


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return jnp.where(x > 0, x, alpha * (jnp.exp(jnp.minimum(x, 0)) - 1))


def _hinge(x: Array) -> Array:
    return jnp.where(x > 0, x, 0)


DEFINITIONS: dict[str, Callable[..., Array]] = {
    "log2": lambda x: jnp.log(x) / jnp.log(jnp.asarray(2, x.dtype)),
    "log10": lambda x: jnp.log(x) / jnp.log(jnp.asarray(10, x.dtype)),
    "exp2": lambda x: jnp.exp(x * jnp.log(jnp.asarray(2, x.dtype))),
    "sigmoid": _sigmoid,
    "log_sigmoid": lambda x: -_softplus(-x),
    "softplus": _softplus,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * erfc(-x / jnp.sqrt(jnp.asarray(2, x.dtype))) / 2,
    # 1 + tanh(u) = 2 / (1 + exp(-2u))
    "gelu_tanh": lambda x: x / (1 + jnp.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "mish": lambda x: x * jnp.tanh(_softplus(x)),
    "elu": _elu,
    "celu": lambda x: 2 * _elu(x / 2),
    "selu": lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    "logit": lambda x: jnp.log(x / (1 - x)),
    "sinc": lambda x: jnp.sin(np.pi * x) / (np.pi * x),
    "hypot": lambda x, y: jnp.sqrt(x * x + y * y),
    "logaddexp": lambda x, y: jnp.log(jnp.exp(x) + jnp.exp(y)),
    "copysign": lambda x, y: jnp.where(y < 0, -jnp.abs(x), jnp.abs(x)),
    "xlogy": lambda x, y: x * jnp.log(y),
    "var": _var,
    "std": lambda x: jnp.sqrt(_var(x)),
    "norm": _length,
    "logsumexp": lambda x: jnp.log(jnp.sum(jnp.exp(x), -1)),
    "logcumsumexp": lambda x: jnp.log(jnp.cumsum(jnp.exp(x), -1)),
    "softmax": _softmax,
    "log_softmax": lambda x: jnp.log(_softmax(x)),
    "normalize": lambda x: x / _length(x)[..., None],
    "mse_loss": lambda x, y: jnp.mean((x - y) ** 2),
    "l1_loss": lambda x, y: jnp.mean(jnp.abs(x - y)),
    "smooth_l1_loss": lambda x, y: _huber(x, y, 1.0),
    "huber_loss": lambda x, y: _huber(x, y, 0.5),
    "cross_entropy": _cross_entropy,
    "label_smoothing": lambda x, y: _cross_entropy(x, y, 0.1),
    "soft_cross_entropy": lambda x, y: -jnp.sum(y * jnp.log(_softmax(x))) / x.shape[0],
    "nll_loss": _cross_entropy,
    "kl_div": lambda x, y: jnp.sum(y * (jnp.log(y) - jnp.log(_softmax(x)))) / x.shape[0],
    "bce": lambda x, y: -jnp.mean(y * jnp.log(x) + (1 - y) * jnp.log(1 - x)),
    "bce_with_logits": lambda x, y: jnp.mean(_softplus(x) - x * y),
    "poisson_nll_loss": lambda x, y: jnp.mean(jnp.exp(x) - y * x),
    "gaussian_nll_loss": lambda x, y, z: jnp.mean(jnp.log(z) + (x - y) ** 2 / z) / 2,
    "soft_margin_loss": lambda x, y: jnp.mean(jnp.log(1 + jnp.exp(-y * x))),
    "hinge_embedding_loss": lambda x, y: jnp.mean(jnp.where(y == 1, x, _hinge(1 - x))),
    "margin_ranking_loss": lambda x, y, z: jnp.mean(_hinge(-z * (x - y))),
    "multilabel_soft_margin_loss": lambda x, y: jnp.mean(_softplus(x) - x * y),
    "cosine_similarity": _cosine,
    "layer_norm": _layer_norm,
    "LayerNorm": _layer_norm,
    "rms_norm": _rms_norm,
    "RMSNorm": _rms_norm,
    "batch_norm": _batch_norm,
    "BatchNorm1d": _batch_norm,
    "group_norm": _group_norm,
    "GroupNorm": _group_norm,
    "attention": lambda q, k, v: _attention(q, k, v, causal=False),
    "causal_attention": lambda q, k, v: _attention(q, k, v, causal=True),
}
