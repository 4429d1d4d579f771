import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Exponential:
    """An exponential distribution of each element."""

    rate: jax.Array

    @property
    def mean(self):
        return 1 / self.rate

    stddev = mean

    @property
    def variance(self):
        return self.mean**2

    def sample(self, key, shape=()):
        return jax.random.exponential(key, (*shape, *jnp.shape(self.rate))) / self.rate

    def log_prob(self, value):
        return jnp.log(self.rate) - self.rate * value

    def entropy(self):
        return 1 - jnp.log(self.rate)
