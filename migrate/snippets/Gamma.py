import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Gamma:
    """A gamma distribution of each element."""

    concentration: jax.Array
    rate: jax.Array

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def variance(self):
        return self.concentration / self.rate**2

    @property
    def stddev(self):
        return self.variance**0.5

    def sample(self, key, shape=()):
        a, rate = jnp.broadcast_arrays(self.concentration, self.rate)
        return jax.random.gamma(key, a, (*shape, *a.shape)) / rate

    def log_prob(self, value):
        a, log = self.concentration, jax.scipy.special.xlogy
        return log(a, self.rate) + log(a - 1, value) - self.rate * value - jax.scipy.special.gammaln(a)

    def entropy(self):
        a = self.concentration
        digamma = jax.scipy.special.digamma(a)
        return a - jnp.log(self.rate) + jax.scipy.special.gammaln(a) + (1 - a) * digamma
