"""What big_vision's ViT and MaxText's decoders compute, written anew from their conventions, to prove the layouts.

Neither project can be installed beside these tests. The conventions are theirs: names and shapes of the leaves, queries
that are scaled beforehand, rotary pairs side by side (Llama), norms that hold one more (Gemma), layers along axis 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

Tree = Mapping[str, Any]


class Mlp(nn.Module):
    inner: int
    dtype: Any

    @nn.compact
    def __call__(self, x):
        width = x.shape[-1]
        x = nn.gelu(nn.Dense(self.inner, param_dtype=self.dtype, name="Dense_0")(x))
        return nn.Dense(width, param_dtype=self.dtype, name="Dense_1")(x)


class Block(nn.Module):
    heads: int
    inner: int
    dtype: Any

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm(param_dtype=self.dtype, name="LayerNorm_0")(x)
        attention = nn.MultiHeadDotProductAttention(
            self.heads, param_dtype=self.dtype, name="MultiHeadDotProductAttention_0"
        )
        x = x + attention(y, y)
        y = nn.LayerNorm(param_dtype=self.dtype, name="LayerNorm_1")(x)
        return x + Mlp(self.inner, self.dtype, name="MlpBlock_0")(y)


class Encoder(nn.Module):
    depth: int
    heads: int
    inner: int
    dtype: Any

    @nn.compact
    def __call__(self, x):
        for i in range(self.depth):
            x = Block(self.heads, self.inner, self.dtype, name=f"encoderblock_{i}")(x)
        return nn.LayerNorm(param_dtype=self.dtype, name="encoder_norm")(x)


class BigVisionViT(nn.Module):
    """`images`: (batch, height, width, channels)."""

    classes: int
    patch: int
    width: int
    depth: int
    heads: int
    inner: int
    dtype: Any

    @nn.compact
    def __call__(self, images):
        patch = (self.patch, self.patch)
        x = nn.Conv(self.width, patch, strides=patch, padding="VALID", param_dtype=self.dtype, name="embedding")(images)
        x = x.reshape(x.shape[0], -1, self.width)
        zeros = nn.initializers.zeros
        x = x + self.param("pos_embedding", zeros, (1, x.shape[1], self.width), self.dtype)
        cls = self.param("cls", zeros, (1, 1, self.width), self.dtype)
        x = jnp.concatenate([jnp.tile(cls, [x.shape[0], 1, 1]), x], axis=1)
        x = Encoder(self.depth, self.heads, self.inner, self.dtype, name="Transformer")(x)
        return nn.Dense(self.classes, param_dtype=self.dtype, name="head")(x[:, 0])


def maxtext_logits(params: Tree, ids: np.ndarray, config: Any) -> jax.Array:
    """Logits (batch, time, vocabulary) of a Llama, Gemma 2 or Gemma 3 in MaxText's layout."""
    gemma = config.model_type.startswith("gemma")
    x = params["token_embedder"]["embedding"][ids]
    for number in range(config.num_hidden_layers):
        weights, place, kind = _layer(params["decoder"], number, config)
        x = _maxtext_layer(x, lambda name, w=weights, p=place, k=kind: _one(w, name, p, k), number, config)
    x = _rms(x, params["decoder"]["decoder_norm"]["scale"], config)
    if not gemma:
        return x @ params["decoder"]["logits_dense"]["kernel"]
    logits = x @ params["token_embedder"]["embedding"].T / np.sqrt(config.hidden_size)
    return _capped(logits, config.final_logit_softcapping)


def _layer(decoder: Tree, number: int, config: Any) -> tuple[Tree, int | None, str]:
    """The weights among which a layer is, its place in the stack, and what its names end with."""
    if config.model_type == "gemma2":
        return decoder["layers"], number // 2, ("_local", "_global")[number % 2]
    if config.model_type == "gemma3_text":
        stacked = number < config.num_hidden_layers // 6 * 6
        group = decoder["layers" if stacked else "layers_remainder"]
        return group[f"layers_{number % 6}"], number // 6 if stacked else None, ""
    return decoder["layers"], number, ""


def _one(weights: Tree, name: str, place: int | None, kind: str) -> jax.Array:
    first, *rest = name.split("/")
    for part in (first + kind, *rest):
        weights = weights[part]
    return weights if place is None else jnp.take(weights, place, axis=1)


def _maxtext_layer(x: jax.Array, weight: Callable[[str], jax.Array], number: int, config: Any) -> jax.Array:
    gemma = config.model_type.startswith("gemma")
    norm = "norm" if gemma else "layer_norm"
    y = _attention(_rms(x, weight(f"pre_self_attention_{norm}/scale"), config), weight, number, config)
    if not gemma:
        x = x + y
        y = _mlp(_rms(x, weight("post_self_attention_layer_norm/scale"), config), weight, jax.nn.silu)
        return x + y
    x = x + _rms(y, weight("post_self_attention_norm/scale"), config)
    y = _mlp(_rms(x, weight("pre_ffw_norm/scale"), config), weight, jax.nn.gelu)
    return x + _rms(y, weight("post_ffw_norm/scale"), config)


def _mlp(x: jax.Array, weight: Callable[[str], jax.Array], activation: Callable[[jax.Array], jax.Array]) -> jax.Array:
    return activation(x @ weight("mlp/wi_0/kernel")) * (x @ weight("mlp/wi_1/kernel")) @ weight("mlp/wo/kernel")


def _attention(x: jax.Array, weight: Callable[[str], jax.Array], number: int, config: Any) -> jax.Array:
    query, key, value = (
        jnp.einsum("bte,ehd->bthd", x, weight(f"self_attention/{name}/kernel")) for name in ("query", "key", "value")
    )
    rotate = _rotated_halves if config.model_type.startswith("gemma") else _rotated_pairs
    base = 10_000.0
    if config.model_type == "gemma3_text":
        query = _rms(query, weight("self_attention/query_norm/scale"), config) * config.query_pre_attn_scalar**-0.5
        key = _rms(key, weight("self_attention/key_norm/scale"), config)
        base = 1e6 if number % 6 == 5 else base
    query, key = rotate(query, base), rotate(key, base)
    key, value = (jnp.repeat(each, query.shape[2] // key.shape[2], axis=2) for each in (key, value))
    scores = _capped(jnp.einsum("bqhd,bkhd->bhqk", query, key), getattr(config, "attn_logit_softcapping", None))
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    return jnp.einsum("bthd,hde->bte", mixed, weight("self_attention/out/kernel"))


def _angles(x: jax.Array, base: float) -> tuple[jax.Array, jax.Array]:
    size = x.shape[-1]
    angle = np.arange(x.shape[1])[:, None] / base ** (np.arange(0, size, 2) / size)
    return jnp.asarray(np.cos(angle)[:, None], x.dtype), jnp.asarray(np.sin(angle)[:, None], x.dtype)


def _rotated_pairs(x: jax.Array, base: float) -> jax.Array:
    """Rotary embedding of neighbours, as MaxText's Llama has it."""
    cos, sin = _angles(x, base)
    even, odd = x[..., ::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def _rotated_halves(x: jax.Array, base: float) -> jax.Array:
    """Rotary embedding of elements half a head apart."""
    cos, sin = _angles(x, base)
    low, high = jnp.split(x, 2, -1)
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


def _rms(x: jax.Array, scale: jax.Array, config: Any) -> jax.Array:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + config.rms_norm_eps) * scale


def _capped(x: jax.Array, cap: float | None) -> jax.Array:
    return x if cap is None else cap * jnp.tanh(x / cap)
