"""A language model in a ModuleDict with a tied table, norms of its own with or without a bias, several sizes of parts."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    """Layer normalisation over the trailing axes, as many as `shape` has; weight and bias are of that shape."""
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdims=True)
    y = centred * jax.lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def scaled_dot_product_attention(
    query, key, value, mask=None, is_causal=False, scale=None, dropout_rate=0.0, dropout_key=None
):
    """Attention over (..., length, width). A boolean mask says what may be attended to; any other is added."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.swapaxes(-2, -1) * scale
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    weights = jax.nn.softmax(scores, axis=-1, where=scores > -jnp.inf)  # 0 where nothing may be attended to
    if dropout_rate > 0:
        keep = jax.random.bernoulli(dropout_key, 1 - dropout_rate, weights.shape)
        weights = jnp.where(keep, weights / (1 - dropout_rate), 0)
    return weights @ value


def split(x, size, axis=0):
    """Parts of the sizes of a list; or of one size, the last part shorter where the length does not divide."""
    if isinstance(size, int):
        return jnp.split(x, list(range(size, x.shape[axis], size)), axis)
    return jnp.split(x, [sum(size[:number]) for number in range(1, len(size))], axis)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Norm(nn.Module):
    width: Any
    bias: Any

    def setup(self):
        self.weight = self.param("weight", nn.initializers.ones, (self.width,))
        self.bias_value = self.param("bias_value", nn.initializers.zeros, (self.width,)) if self.bias else None

    def __call__(self, x):
        return layer_norm(x, self.weight.shape, self.weight, self.bias_value, eps=1e-5)


class Attention(nn.Module):
    config: Any

    def setup(self):
        self.width = self.config.width
        self.qkv = nn.Dense(
            3 * self.config.width,
            use_bias=self.config.bias,
            **torch_init(fan_in=self.config.width, kernel_init=nn.initializers.normal(0.02))
        )

    def __call__(self, x):
        q, k, v = split(self.qkv(x), self.width, axis=2)
        return scaled_dot_product_attention(q, k, v, is_causal=True)


class Model(nn.Module):
    config: Any

    def setup(self):
        self.parts = {
            "table": nn.Embed(self.config.vocabulary, self.config.width, embedding_init=nn.initializers.normal(0.02)),
            "blocks": [Attention(self.config) for _ in range(self.config.layers)],
            "norm": Norm(self.config.width, bias=self.config.bias),
        }

    def __call__(self, tokens):
        x = self.parts["table"](tokens)
        for block in self.parts["blocks"]:
            x = x + block(x)
        return self.parts["table"].attend(self.parts["norm"](x))
