import jax
from flax import struct


@struct.dataclass
class Dirichlet:
    """Probabilities on the last axis."""

    concentration: jax.Array

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, keepdims=True)

    @property
    def variance(self):
        total = self.concentration.sum(-1, keepdims=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    @property
    def stddev(self):
        return self.variance**0.5

    def _log_norm(self):
        gammaln = jax.scipy.special.gammaln
        return gammaln(self.concentration).sum(-1) - gammaln(self.concentration.sum(-1))

    def sample(self, key, shape=()):
        return jax.random.dirichlet(key, self.concentration, (*shape, *self.concentration.shape[:-1]))

    def log_prob(self, value):
        return jax.scipy.special.xlogy(self.concentration - 1, value).sum(-1) - self._log_norm()

    def entropy(self):
        a, digamma = self.concentration, jax.scipy.special.digamma
        total = a.sum(-1)
        return self._log_norm() + (total - a.shape[-1]) * digamma(total) - ((a - 1) * digamma(a)).sum(-1)
