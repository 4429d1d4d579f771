"""A small GPT and a small CNN, in torch and in JAX, with every mistake that people make when they port such models.

The JAX side is written once; a `Port` says which of its decisions are wrong. Nothing here is a good way to write a
model: each line that a mistake can reach is spelt out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, LENGTH, WIDTH, HEADS, CLASSES = 17, 8, 16, 2, 5


@dataclass(frozen=True)
class Port:
    """One port of both models; the defaults are right."""

    # GPT
    square_transposed: bool = False
    norm_epsilon: float = 1e-5
    norm_one_pass: bool = False
    norm_unbiased: bool = False
    gelu_tanh: bool = False
    rope_halves: bool = False
    rope_base: float = 10000.0
    mask_diagonal: int = 0
    mask_constant: float = -math.inf
    scale_power: float = -0.5
    value_bias: bool = True
    softmax_bfloat16: bool = False
    residual_of_norm: bool = False
    position_offset: int = 0
    last_norm: bool = True
    head_axis_first: bool = False
    shift_labels: bool = False
    smoothing: float = 0.0
    loss_sum: bool = False
    # CNN
    batch_epsilon: float = 1e-5
    batch_momentum: float = 0.1
    batch_unbiased: bool = True
    batch_frozen: bool = False
    same_padding: bool = False
    pool_average: bool = False
    flatten_last: bool = False
    slope: float = 0.01
    kernel_flipped: bool = False
    conv_bias: bool = True
    # optimizer
    decay: float = 0.1
    decoupled: bool = True
    beta2: float = 0.999
    epsilon_inside: bool = False
    bias_correction: bool = True
    clip: float = 1.0
    clip_each: bool = False
    schedule_offset: int = 0


RATE, WARM_UP = 1e-2, 4


# --- torch -----------------------------------------------------------------------------------------------------------


class TorchGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LENGTH + 2, WIDTH)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        n, t = ids.shape
        x = self.embed(ids) + self.position(torch.arange(t))
        h = self.norm1(x)
        q, k, v = (f(h).view(n, t, HEADS, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        q, k = torch_rope(q), torch_rope(k)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(t, t).tril() == 0, -math.inf)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, -1))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(self.norm3(x))


def torch_rope(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * 10000.0 ** -(torch.arange(half, dtype=x.dtype) / half)
    cos, sin, even, odd = angle.cos(), angle.sin(), x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class TorchCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1)
        self.fc = nn.Linear(24, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.leaky_relu(self.norm(self.conv1(x)))
        x = F.max_pool2d(self.conv2(x), 2)
        return self.fc(x.flatten(1))


# --- JAX -------------------------------------------------------------------------------------------------------------

Arrays = dict[str, Any]


def jax_gpt(p: Arrays, ids: Any, port: Port) -> tuple[Any, Arrays]:
    t = ids.shape[1]
    x = p["embed.weight"][ids] + p["position.weight"][jnp.arange(t) + port.position_offset]
    h = _layer_norm(p, "norm1", x, port)
    q, k, v = (_split(_dense(p, name, h, port), port) for name in ("query", "key", "value"))
    q, k = _rope(q, port), _rope(k, port)
    scores = (q @ k.swapaxes(-1, -2)) * q.shape[-1] ** port.scale_power
    seen = jnp.tril(jnp.ones((t, t)), port.mask_diagonal) > 0
    scores = jnp.where(seen, scores, port.mask_constant)
    weights = jax.nn.softmax(scores.astype(jnp.bfloat16) if port.softmax_bfloat16 else scores, -1).astype(x.dtype)
    mixed = _merge(weights @ v, port)
    x = (h if port.residual_of_norm else x) + _dense(p, "out", mixed, port)
    up = jax.nn.gelu(_dense(p, "up", _layer_norm(p, "norm2", x, port), port), approximate=port.gelu_tanh)
    x = x + _dense(p, "down", up, port)
    return (_layer_norm(p, "norm3", x, port) if port.last_norm else x) @ p["head.weight"].T, {}


def _dense(p: Arrays, name: str, x: Any, port: Port) -> Any:
    kernel = p[f"{name}.weight"]
    y = x @ (kernel if name == "out" and port.square_transposed else kernel.T)
    return y if name == "value" and not port.value_bias else y + p[f"{name}.bias"]


def _split(x: Any, port: Port) -> Any:
    n, t, width = x.shape
    if port.head_axis_first:
        return x.reshape(n, t, width // HEADS, HEADS).transpose(0, 3, 1, 2)
    return x.reshape(n, t, HEADS, width // HEADS).transpose(0, 2, 1, 3)


def _merge(x: Any, port: Port) -> Any:
    n, _, t, _ = x.shape
    return x.transpose(0, 2, 3, 1).reshape(n, t, -1) if port.head_axis_first else x.swapaxes(1, 2).reshape(n, t, -1)


def _layer_norm(p: Arrays, name: str, x: Any, port: Port) -> Any:
    mean = x.mean(-1, keepdims=True)
    if port.norm_one_pass:
        variance = jnp.square(x).mean(-1, keepdims=True) - jnp.square(mean)
    else:
        variance = x.var(-1, keepdims=True, ddof=int(port.norm_unbiased))
    return (x - mean) * jax.lax.rsqrt(variance + port.norm_epsilon) * p[f"{name}.weight"] + p[f"{name}.bias"]


def _rope(x: Any, port: Port) -> Any:
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[-2], dtype=x.dtype)[:, None] * port.rope_base ** -(
        jnp.arange(half, dtype=x.dtype) / half
    )
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    if port.rope_halves:
        one, two = x[..., :half], x[..., half:]
        return jnp.concatenate([one * cos - two * sin, one * sin + two * cos], -1)
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def jax_cnn(p: Arrays, x: Any, port: Port) -> tuple[Any, Arrays]:
    x = _conv(p, "conv1", x, 2, "SAME" if port.same_padding else [(1, 1), (1, 1)], port)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    count, m = x.size // x.shape[1], port.batch_momentum
    unbiased = variance * count / (count - 1) if port.batch_unbiased else variance
    state = {
        "norm.running_mean": (1 - m) * p["norm.running_mean"] + m * mean,
        "norm.running_var": (1 - m) * p["norm.running_var"] + m * unbiased,
    }
    if port.batch_frozen:
        mean, variance = p["norm.running_mean"], p["norm.running_var"]
    x = (x - mean[:, None, None]) * jax.lax.rsqrt(variance + port.batch_epsilon)[:, None, None]
    x = x * p["norm.weight"][:, None, None] + p["norm.bias"][:, None, None]
    x = _conv(p, "conv2", jax.nn.leaky_relu(x, port.slope), 1, [(1, 1), (1, 1)], port)
    n, c, height, width = x.shape
    windows = x.reshape(n, c, height // 2, 2, width // 2, 2)
    x = windows.mean((3, 5)) if port.pool_average else windows.max((3, 5))
    x = (x.transpose(0, 2, 3, 1) if port.flatten_last else x).reshape(n, -1)
    return x @ p["fc.weight"].T + p["fc.bias"], state


def _conv(p: Arrays, name: str, x: Any, stride: int, padding: Any, port: Port) -> Any:
    kernel = p[f"{name}.weight"]
    kernel = kernel[:, :, ::-1, ::-1] if port.kernel_flipped and name == "conv2" else kernel
    y = jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding)
    return y if name == "conv2" and not port.conv_bias else y + p[f"{name}.bias"][:, None, None]


def cross_entropy(logits: Any, labels: Any, port: Port) -> Any:
    logs = jax.nn.log_softmax(logits.reshape(-1, logits.shape[-1]))
    labels = labels.reshape(-1)
    labels = jnp.roll(labels, 1) if port.shift_labels else labels
    picked = -logs[jnp.arange(len(labels)), labels]
    losses = (1 - port.smoothing) * picked - port.smoothing * logs.mean(-1)
    return losses.sum() if port.loss_sum else losses.mean()


def adamw(p: Arrays, g: Arrays, m: Arrays, v: Arrays, step: int, port: Port) -> tuple[Arrays, Arrays, Arrays]:
    """One update, clipped and warmed up; `step` counts from 1. In numpy: elementwise, and nothing to compile."""
    norms = {name: np.sqrt(np.square(x).sum()) for name, x in g.items()}
    norm = np.sqrt(sum(np.square(x) for x in norms.values()))
    scales = {name: port.clip / ((norms[name] if port.clip_each else norm) + 1e-6) for name in g}
    g = {name: x * np.minimum(1.0, scales[name]) for name, x in g.items()}
    rate = RATE * min(1.0, (step + port.schedule_offset) / WARM_UP)
    new: tuple[Arrays, Arrays, Arrays] = ({}, {}, {})
    for name, x in p.items():
        grad = g[name] if port.decoupled else g[name] + port.decay * x
        first, second = 0.9 * m[name] + 0.1 * grad, port.beta2 * v[name] + (1 - port.beta2) * grad * grad
        a, b = (1 - 0.9**step, 1 - port.beta2**step) if port.bias_correction else (1.0, 1.0)
        root = np.sqrt(second / b + 1e-8) if port.epsilon_inside else np.sqrt(second / b) + 1e-8
        kept = x * (1 - rate * port.decay) if port.decoupled else x
        new[0][name], new[1][name], new[2][name] = kept - rate * first / a / root, first, second
    return new


def inputs(model: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(3)
    if model == "gpt":
        return random.randint(0, VOCABULARY, (4, LENGTH)), random.randint(0, VOCABULARY, (4, LENGTH))
    return random.standard_normal((16, 3, 8, 8)).astype(np.float32), random.randint(0, CLASSES, 16)
