"""Weights that an initialising loop finds by the class that holds them, and only where an argument says so."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


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


def normal_around(mean, stddev):
    """Initial values drawn around a mean; `nn.initializers.normal` has them around 0."""
    return lambda key, shape, dtype=jnp.float32: mean + stddev * jax.random.normal(key, shape, dtype)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Plain(nn.Module):
    width: int
    norm: Any
    start_as_identity: bool = False
    training: bool = False

    def setup(self):
        self.conv = nn.Conv(
            self.width,
            (3, 3),
            padding=1,
            **torch_init(
                fan_in=self.width * 3 * 3,
                kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal"),
            )
        )
        self.last = self.norm(
            self.width,
            scale_init=nn.initializers.zeros if self.start_as_identity else normal_around(1.0, 0.02),
            training=self.training,
        )

    def __call__(self, x):
        return x + self.last(self.conv(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)


class Narrow(nn.Module):
    width: int
    norm: Any
    start_as_identity: bool = False
    training: bool = False

    def setup(self):
        self.down = nn.Conv(
            self.width // 2,
            (1, 1),
            padding="VALID",
            **torch_init(
                fan_in=self.width, kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal")
            )
        )
        self.between = self.norm(self.width // 2, scale_init=normal_around(1.0, 0.02), training=self.training)
        self.up = nn.Conv(
            self.width,
            (1, 1),
            padding="VALID",
            **torch_init(
                fan_in=(self.width // 2),
                kernel_init=(
                    nn.initializers.zeros
                    if self.start_as_identity
                    else nn.initializers.variance_scaling(2.0, "fan_out", "normal")
                ),
            )
        )
        self.last = self.norm(
            self.width,
            scale_init=nn.initializers.zeros if self.start_as_identity else normal_around(1.0, 0.02),
            training=self.training,
        )

    def __call__(self, x):
        return x + self.last(self.up(self.between(self.down(x.transpose(0, 2, 3, 1))))).transpose(0, 3, 1, 2)


class Stage(nn.Module):
    block: Any
    width: int
    depth: int
    norm: Any
    start_as_identity: bool = False
    training: bool = False

    def setup(self):
        self.blocks = nn.Sequential(
            [
                self.block(
                    self.width, self.norm, start_as_identity=self.start_as_identity, training=self.training
                )
                for _ in range(self.depth)
            ]
        )

    def __call__(self, x):
        return self.blocks(x)


def make_batch_norm2d(num_features, scale_init=nn.initializers.ones, training=False):
    return BatchNorm(use_running_average=not training, scale_init=scale_init)


class Net(nn.Module):
    block: Any
    width: int = 8
    depth: int = 2
    norm: Any = None
    start_as_identity: bool = False
    training: bool = False

    def setup(self):
        norm = self.norm
        if norm is None:
            norm = make_batch_norm2d
        self.stage = Stage(
            self.block,
            self.width,
            self.depth,
            norm,
            start_as_identity=self.start_as_identity,
            training=self.training,
        )

    def __call__(self, x):
        return self.stage(x)


def plain_net():
    return Net(Plain, start_as_identity=True)


def narrow_net():
    return Net(Narrow)


class Head(nn.Module):
    def setup(self):
        self.norm = nn.LayerNorm(epsilon=1e-5)
        self.scale = self.param("scale", nn.initializers.constant(0.1), (4,))
        self.out = nn.Dense(2, kernel_init=nn.initializers.zeros)

    def __call__(self, x):
        return self.out(self.norm(x) * self.scale)


class Classifier(nn.Module):
    def setup(self):
        self.body = nn.Dense(4, kernel_init=nn.initializers.normal(0.02))
        self.head = Head()

    def __call__(self, x):
        return self.head(self.body(x))
