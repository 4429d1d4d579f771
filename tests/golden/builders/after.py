"""Functions that build modules, called by constructors: they are told the mode. A layer that an argument chooses."""
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


class BatchNorm(nn.Module):
    """Batch normalisation with torch's running statistics: the variance is the unbiased one."""

    use_running_average: bool
    momentum: float = 0.1
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = -1
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        features = x.shape[self.axis]
        axis = self.axis % x.ndim
        others = tuple(i for i in range(x.ndim) if i != axis)
        shape = [features if i == axis else 1 for i in range(x.ndim)]
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, features)
        running_var = self.variable("batch_stats", "var", jnp.ones, features)
        if self.use_running_average:
            mean, var = running_mean.value, running_var.value
        else:
            mean = x.mean(others)
            var = jnp.square(x - mean.reshape(shape)).mean(others)
            if not self.is_initializing():
                n = x.size // features
                m = self.momentum
                running_mean.value = (1 - m) * running_mean.value + m * jax.lax.stop_gradient(mean)
                running_var.value = (1 - m) * running_var.value + m * jax.lax.stop_gradient(var) * n / (n - 1)
        y = (x - mean.reshape(shape)) * jax.lax.rsqrt(var + self.epsilon).reshape(shape)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)).reshape(shape)
            y = y + self.param("bias", self.bias_init, (features,)).reshape(shape)
        return y


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=False, recompute_scale_factor=False):
    """Resizes the axes after the first two, as torch does: "nearest" rounds down, the others go by the centres."""
    for axis in range(2, x.ndim):
        old = x.shape[axis]
        factor = scale_factor[axis - 2] if isinstance(scale_factor, tuple | list) else scale_factor
        new = size[axis - 2] if isinstance(size, tuple | list) else size
        new = int(old * factor) if new is None else new
        step = old / new if factor is None or recompute_scale_factor else 1 / factor
        if mode.startswith("nearest"):
            centre = 0.5 if mode == "nearest-exact" else 0
            x = jnp.take(x, np.minimum(np.floor((np.arange(new) + centre) * step), old - 1).astype(int), axis)
            continue
        if align_corners:
            place = np.arange(new) * ((old - 1) / max(new - 1, 1))
        else:
            place = (np.arange(new) + 0.5) * step - 0.5
        if mode != "bicubic":
            place = np.maximum(place, 0)
        low = np.minimum(np.floor(place), old - 1).astype(int)
        t = place - low
        if mode == "bicubic":
            far = [-0.75 * (d**3 - 5 * d**2 + 8 * d - 4) for d in (1 + t, 2 - t)]
            near = [1.25 * d**3 - 2.25 * d**2 + 1 for d in (t, 1 - t)]
            shares = {-1: far[0], 0: near[0], 1: near[1], 2: far[1]}
        else:
            shares = {0: 1 - t, 1: t}
        shape = (-1, *[1] * (x.ndim - axis - 1))
        x = sum(
            jnp.take(x, np.clip(low + offset, 0, old - 1), axis) * jnp.asarray(share, x.dtype).reshape(shape)
            for offset, share in shares.items()
        )
    return x


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


def conv_bn(inputs, outputs, stride=1, training=False):
    return nn.Sequential(
        [
            nn.Conv(
                outputs,
                (3, 3),
                strides=(stride, stride),
                padding=1,
                use_bias=False,
                kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal"),
            ),
            BatchNorm(use_running_average=not training),
            nn.relu6,
        ]
    )


def feed_forward(dim, mult=4, dropout=0.0, training=False):
    hidden = dim * mult
    layers = [
        nn.Dense(hidden, **torch_init(fan_in=dim)),
        partial(nn.gelu, approximate=False),
        nn.Dropout(dropout, deterministic=not training),
    ]
    layers.append(nn.Dense(dim, **torch_init(fan_in=hidden)))
    return nn.Sequential(layers)


def make_stage(inputs, outputs, blocks, training=False):
    stage = nn.Sequential(
        [
            conv_bn(inputs, outputs, 2, training=training),
            *[conv_bn(outputs, outputs, training=training) for _ in range(blocks - 1)],
        ]
    )
    return stage


class Block(nn.Module):
    dim: int
    training: bool = False

    def setup(self):
        self.norm = nn.LayerNorm(epsilon=1e-5)
        self.feed = feed_forward(self.dim, 2, dropout=0.1, training=self.training)

    def __call__(self, x):
        return x + self.feed(self.norm(x))


def make_block(dim, training=False):
    return Block(dim, training=training)


class Up(nn.Module):
    width: int
    bilinear: bool = True

    def setup(self):
        if self.bilinear:
            self.up = lambda x: interpolate(
                x.transpose(0, 3, 1, 2), scale_factor=2, mode="bilinear", align_corners=True
            ).transpose(0, 2, 3, 1)
        else:
            self.up = nn.ConvTranspose(
                self.width,
                (2, 2),
                strides=(2, 2),
                padding=1,
                transpose_kernel=True,
                **torch_init(fan_in=self.width * 2 * 2)
            )

    def __call__(self, x):
        return self.up(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


class Net(nn.Module):
    width: int = 8
    training: bool = False

    def setup(self):
        self.stem = conv_bn(3, self.width, training=self.training)
        self.stage = make_stage(self.width, 2 * self.width, 2, training=self.training)
        self.up = Up(2 * self.width)
        self.blocks = [make_block(2 * self.width, training=self.training) for _ in range(2)]

    def __call__(self, x):
        x = self.up(self.stage(self.stem(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)).mean(axis=(2, 3))
        for block in self.blocks:
            x = block(x)
        return x
