"""Module classes that inherit: abstract bases, mixins, overridden methods, constructors that pass arguments on."""

from abc import abstractmethod
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class Named:
    def title(self):
        return type(self).__name__


class BaseVAE(nn.Module):
    """What the models share."""

    def encode(self, x):
        raise NotImplementedError

    @abstractmethod
    def decode(self, z):
        pass

    def reconstruct(self, x):
        return self.decode(self.encode(x)).reshape(x.shape[0], -1)


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


class VAE(Named, BaseVAE):
    width: int
    latent: int
    training: bool = False

    def setup(self):
        self.encoder = nn.Dense(self.latent, **torch_init(fan_in=self.width))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.decoder = nn.Dense(self.width, **torch_init(fan_in=self.latent))

    def encode(self, x):
        return self.norm(self.encoder(x))

    def decode(self, z):
        return self.decoder(z)

    def __call__(self, x):
        return self.reconstruct(x)


class Attention(nn.Module):
    """Attention with one head."""

    dim: int
    heads: int = 2
    p: float = 0.1
    training: bool = False

    def setup(self):
        self.query = nn.Dense(self.dim, **torch_init(fan_in=self.dim))
        self.key = nn.Dense(self.dim, **torch_init(fan_in=self.dim))
        self.dropout = nn.Dropout(self.p, deterministic=not self.training)

    def scores(self, x):
        return self.query(x) @ self.key(x).swapaxes(-1, -2)

    def __call__(self, x):
        return self.dropout(nn.softmax(self.scores(x), axis=-1)) @ x


class Scaled(Attention):
    def scores(self, x):
        return super().scores(x) * self.heads


class Relative(nn.Module):
    """Attention with a bias for each distance."""

    dim: int
    length: Any
    p: float = 0.0
    training: bool = False

    def setup(self):
        heads = 4
        self.heads = heads
        self.query = nn.Dense(self.dim, **torch_init(fan_in=self.dim))
        self.key = nn.Dense(self.dim, **torch_init(fan_in=self.dim))
        self.dropout = nn.Dropout(self.p, deterministic=not self.training)
        self.bias = self.param("bias", nn.initializers.zeros, (self.length, self.length))

    def scores(self, x):
        return self._attention_scores(x) + self.bias

    def _attention_scores(self, x):
        return self.query(x) @ self.key(x).swapaxes(-1, -2)

    def __call__(self, x):
        return self.dropout(nn.softmax(self.scores(x), axis=-1)) @ x


class Model(nn.Module):
    dim: int = 8
    training: bool = False

    def setup(self):
        self.a = Attention(self.dim, training=self.training)
        self.b = Scaled(self.dim, 3, training=self.training)
        self.c = Relative(self.dim, 5, training=self.training)
        self.vae = VAE(self.dim, 4, training=self.training)

    def __call__(self, x):
        return self.vae(self.c(self.b(self.a(x))).mean(axis=1))
