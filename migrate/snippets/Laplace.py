import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Laplace:
    """A Laplace distribution of each element."""

    loc: jax.Array
    scale: jax.Array

    @property
    def mean(self):
        return jnp.broadcast_to(self.loc, jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.scale)))

    @property
    def stddev(self):
        return 2**0.5 * self.scale + jnp.zeros_like(self.mean)

    @property
    def variance(self):
        return self.stddev**2

    def sample(self, key, shape=()):
        return self.loc + self.scale * jax.random.laplace(key, (*shape, *self.mean.shape))

    def log_prob(self, value):
        return -jnp.log(2 * self.scale) - jnp.abs(value - self.loc) / self.scale

    def entropy(self):
        return 1 + jnp.log(2 * self.scale) + jnp.zeros_like(self.mean)
