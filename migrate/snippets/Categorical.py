import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Categorical:
    """Whole numbers from 0; `logits` are normalised log-probabilities on the last axis."""

    logits: jax.Array

    @classmethod
    def from_logits(cls, logits):
        return cls(jax.nn.log_softmax(logits))

    @classmethod
    def from_probs(cls, probs):
        probs, eps = probs / probs.sum(-1, keepdims=True), jnp.finfo(probs.dtype).eps
        return cls(jnp.log(probs.clip(eps, 1 - eps)))

    @property
    def probs(self):
        return jax.nn.softmax(self.logits)

    def sample(self, key, shape=()):
        return jax.random.categorical(key, self.logits, shape=(*shape, *self.logits.shape[:-1]))

    def log_prob(self, value):
        shape = jnp.broadcast_shapes(jnp.shape(value), self.logits.shape[:-1])
        index = jnp.broadcast_to(value, shape)[..., None].astype(int)
        logits = jnp.broadcast_to(self.logits, (*shape, self.logits.shape[-1]))
        return jnp.take_along_axis(logits, index, axis=-1).squeeze(-1)

    def entropy(self):
        return -(self.probs * jnp.maximum(self.logits, jnp.finfo(self.logits.dtype).min)).sum(-1)

    def kl_divergence(self, other):
        return (self.probs * (self.logits - other.logits)).sum(-1)
