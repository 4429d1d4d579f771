import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Bernoulli:
    """Zeros and ones of each element; `logits` are the log-odds of a one."""

    logits: jax.Array

    @classmethod
    def from_logits(cls, logits):
        return cls(logits)

    @classmethod
    def from_probs(cls, probs):
        eps = jnp.finfo(probs.dtype).eps
        return cls(jax.scipy.special.logit(probs.clip(eps, 1 - eps)))

    @property
    def probs(self):
        return jax.nn.sigmoid(self.logits)

    mean = probs

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, key, shape=()):
        drawn = jax.random.bernoulli(key, self.probs, (*shape, *self.logits.shape))
        return drawn.astype(self.logits.dtype)

    def log_prob(self, value):
        return value * self.logits - jax.nn.softplus(self.logits)

    def entropy(self):
        return jax.nn.softplus(self.logits) - self.probs * self.logits

    def kl_divergence(self, other):
        likelier = self.probs * (self.logits - other.logits)
        return likelier - jax.nn.softplus(self.logits) + jax.nn.softplus(other.logits)
