"""Functions that build modules, called by constructors: they are told the mode."""
from functools import partial

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


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


def conv_bn(inputs, outputs, stride=1, training=False):
    return nn.Sequential([
        nn.Conv(outputs, (3, 3), strides=(stride, stride), padding=1, use_bias=False, kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal")),
        BatchNorm(use_running_average=not training),
        nn.relu6,
    ])


def feed_forward(dim, mult=4, dropout=0.0, training=False):
    hidden = dim * mult
    layers = [nn.Dense(hidden, **torch_init(fan_in=dim)), partial(nn.gelu, approximate=False), nn.Dropout(dropout, deterministic=not training)]
    layers.append(nn.Dense(dim, **torch_init(fan_in=hidden)))
    return nn.Sequential(layers)


def make_stage(inputs, outputs, blocks, training=False):
    stage = nn.Sequential([conv_bn(inputs, outputs, 2, training=training), *[conv_bn(outputs, outputs, training=training) for _ in range(blocks - 1)]])
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


class Net(nn.Module):
    width: int = 8
    training: bool = False

    def setup(self):
        self.stem = conv_bn(3, self.width, training=self.training)
        self.stage = make_stage(self.width, 2 * self.width, 2, training=self.training)
        self.blocks = [make_block(2 * self.width, training=self.training) for _ in range(2)]

    def __call__(self, x):
        x = self.stage(self.stem(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2).mean(axis=(2, 3))
        for block in self.blocks:
            x = block(x)
        return x
