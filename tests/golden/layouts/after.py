"""Channels move once in and once out, however the layers are written."""
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


class Straight(nn.Module):
    training: bool = False

    def setup(self):
        self.conv1 = nn.Conv(8, (3, 3), padding=1, **torch_init(fan_in=3 * 3 * 3))
        self.bn1 = BatchNorm(use_running_average=not self.training)
        self.conv2 = nn.Conv(
            8, (3, 3), strides=(2, 2), padding=1, use_bias=False, **torch_init(fan_in=8 * 3 * 3)
        )
        self.pool = partial(nn.avg_pool, window_shape=(2, 2), strides=(2, 2))
        self.fc = nn.Dense(10, **torch_init(fan_in=8 * 4 * 4))

    def __call__(self, x):
        x = nn.relu(self.bn1(self.conv1(x.transpose(0, 2, 3, 1))))
        x = nn.max_pool(nn.leaky_relu(self.conv2(x), 0.1), window_shape=(2, 2), strides=(2, 2))
        x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
        return self.fc(x)


class Residual(nn.Module):
    channels: int

    def setup(self):
        self.body = nn.Sequential([
            nn.Conv(self.channels, (3, 3), padding=1, **torch_init(fan_in=self.channels * 3 * 3)),
            nn.relu,
        ])
        self.skip = nn.Conv(
            self.channels, (1, 1), padding="VALID", **torch_init(fan_in=self.channels)
        )

    def __call__(self, x):
        out = self.body(x.transpose(0, 2, 3, 1))
        out = out + self.skip(x.transpose(0, 2, 3, 1))
        return nn.relu(out).transpose(0, 3, 1, 2)


class Seen(nn.Module):
    """What the user's own code sees has torch's order."""

    def setup(self):
        self.conv = nn.Conv(8, (1, 1), padding="VALID", **torch_init(fan_in=3))
        self.norm = nn.LayerNorm(epsilon=1e-5, reduction_axes=(-2, -1), feature_axes=(-2, -1))

    def __call__(self, x, twice=False):
        x = self.conv(x.transpose(0, 2, 3, 1))
        b, c, h, w = x.transpose(0, 3, 1, 2).shape
        x = x.transpose(0, 3, 1, 2)
        if twice:
            x = self.conv(x[:, :3].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        mean = x.mean(axis=(2, 3))
        return self.norm(x), mean


class Flat(nn.Module):
    def setup(self):
        self.net = nn.Sequential([
            nn.Conv(4, (3, 3), padding="VALID", **torch_init(fan_in=1 * 3 * 3)),
            nn.relu,
            lambda x: x.transpose(0, 3, 1, 2),
            partial(jax.lax.collapse, start_dimension=1),
            nn.Dense(2, **torch_init(fan_in=4 * 6 * 6)),
        ])

    def __call__(self, x):
        return self.net(x.transpose(0, 2, 3, 1))
