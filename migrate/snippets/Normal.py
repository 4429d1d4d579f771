import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Normal:
    """A normal distribution of each element."""

    loc: jax.Array
    scale: jax.Array

    @property
    def mean(self):
        return jnp.broadcast_to(self.loc, jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.scale)))

    @property
    def stddev(self):
        return self.scale + jnp.zeros_like(self.mean)

    @property
    def variance(self):
        return self.stddev**2

    def sample(self, key, shape=()):
        return self.loc + self.scale * jax.random.normal(key, (*shape, *self.mean.shape))

    def log_prob(self, value):
        return jax.scipy.stats.norm.logpdf(value, self.loc, self.scale)

    def entropy(self):
        return 0.5 + 0.5 * jnp.log(2 * jnp.pi) + jnp.log(self.stddev)

    def kl_divergence(self, other):
        ratio = (self.scale / other.scale) ** 2
        return (ratio + ((self.loc - other.loc) / other.scale) ** 2 - 1 - jnp.log(ratio)) / 2
