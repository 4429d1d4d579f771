import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Beta:
    """A beta distribution of each element."""

    concentration1: jax.Array
    concentration0: jax.Array

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    @property
    def stddev(self):
        return self.variance**0.5

    def sample(self, key, shape=()):
        a, b = jnp.broadcast_arrays(self.concentration1, self.concentration0)
        return jax.random.beta(key, a, b, (*shape, *a.shape))

    def log_prob(self, value):
        a, b = self.concentration1, self.concentration0
        weights = jax.scipy.special.xlogy(a - 1, value) + jax.scipy.special.xlog1py(b - 1, -value)
        return weights - self._normaliser()

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        parts = [(x - 1) * jax.scipy.special.digamma(x) for x in (a, b)]
        total = (a + b - 2) * jax.scipy.special.digamma(a + b)
        return self._normaliser() - parts[0] - parts[1] + total

    def _normaliser(self):  # not betaln, which has seven digits where a or b is above 8
        a, b = self.concentration1, self.concentration0
        gammaln = jax.scipy.special.gammaln
        return gammaln(a) + gammaln(b) - gammaln(a + b)
