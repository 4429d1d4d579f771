import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class MultivariateNormal:
    """A normal distribution of vectors; `scale_tril` is the lower triangular factor of the covariance."""

    loc: jax.Array
    scale_tril: jax.Array

    @property
    def mean(self):
        return self.loc

    @property
    def covariance_matrix(self):
        return self.scale_tril @ self.scale_tril.mT

    def _log_volume(self):
        return jnp.log(jnp.diagonal(self.scale_tril, axis1=-2, axis2=-1)).sum(-1)

    def sample(self, key, shape=()):
        batch = jnp.broadcast_shapes(self.loc.shape, self.scale_tril.shape[:-1])
        noise = jax.random.normal(key, (*shape, *batch))
        return self.loc + (self.scale_tril @ noise[..., None]).squeeze(-1)

    def log_prob(self, value):
        difference = value - self.loc
        shape = jnp.broadcast_shapes(difference.shape[:-1], self.scale_tril.shape[:-2])
        factor = jnp.broadcast_to(self.scale_tril, (*shape, *self.scale_tril.shape[-2:]))
        difference = jnp.broadcast_to(difference, (*shape, difference.shape[-1]))[..., None]
        whitened = jax.scipy.linalg.solve_triangular(factor, difference, lower=True).squeeze(-1)
        constant = self.loc.shape[-1] * jnp.log(2 * jnp.pi) / 2
        return -jnp.square(whitened).sum(-1) / 2 - self._log_volume() - constant

    def entropy(self):
        return self.loc.shape[-1] * (1 + jnp.log(2 * jnp.pi)) / 2 + self._log_volume()

    def kl_divergence(self, other):
        size = self.loc.shape[-1]
        parts = jnp.concatenate([self.scale_tril, (other.loc - self.loc)[..., None]], axis=-1)
        whitened = jax.scipy.linalg.solve_triangular(other.scale_tril, parts, lower=True)
        return other._log_volume() - self._log_volume() + (jnp.square(whitened).sum((-2, -1)) - size) / 2
