"""Static methods and class methods of a module: settings that they change, tensors that they are given, a model that
one of them makes."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class Settings:
    pass


def chunk(x, count, axis=0):
    """Equal parts along an axis; where `count` does not divide its length, the last one is shorter, or there are
    fewer."""
    length = x.shape[axis]
    if length % count == 0:
        return jnp.split(x, count, axis)
    size = -(-length // count)
    return jnp.split(x, list(range(size, length, size)), axis)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    @staticmethod
    def defaults():
        settings = Settings()
        settings.width = 4
        settings.dropout = 0.1
        return settings

    @classmethod
    def widened(cls, settings, factor=2):
        settings.width = factor * settings.width
        return settings

    @staticmethod
    def folded(count, x):
        return sum(jnp.expand_dims(jnp.exp(part), 0) for part in chunk(x, count, axis=-1))

    @classmethod
    def of_defaults(cls):
        model = Net(cls.defaults())
        return model

    settings: Any
    training: bool = False

    def setup(self):
        self.layer = nn.Dense(4, **torch_init(fan_in=self.settings.width))
        self.dropout = nn.Dropout(self.settings.dropout, deterministic=not self.training)

    def __call__(self, x):
        return self.folded(2, self.dropout(self.layer(x)))


model = Net.of_defaults()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.ones((3, 4)))["params"]


@jax.jit
def forward_pass(params, key, *inputs):
    return model.clone(training=True).apply({"params": params}, *inputs, rngs={"dropout": key})


key, subkey = jax.random.split(key)
print(forward_pass(params, subkey, jnp.ones((3, 4))))
