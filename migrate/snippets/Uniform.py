import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Uniform:
    """A uniform distribution of each element, from low to high."""

    low: jax.Array
    high: jax.Array

    @property
    def mean(self):
        return (self.low + self.high) / 2

    @property
    def variance(self):
        return (self.high - self.low) ** 2 / 12

    @property
    def stddev(self):
        return self.variance**0.5

    def sample(self, key, shape=()):
        return self.low + (self.high - self.low) * jax.random.uniform(key, (*shape, *jnp.shape(self.mean)))

    def log_prob(self, value):
        inside = (value >= self.low) & (value < self.high)
        return jnp.where(inside, 0, -jnp.inf) - jnp.log(self.high - self.low)

    def entropy(self):
        return jnp.log(self.high - self.low)
