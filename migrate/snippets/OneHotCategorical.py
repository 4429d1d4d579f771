import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class OneHotCategorical:
    """One-hot vectors; `logits` are normalised log-probabilities on the last axis."""

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

    mean = probs

    def sample(self, key, shape=()):
        index = jax.random.categorical(key, self.logits, shape=(*shape, *self.logits.shape[:-1]))
        return jax.nn.one_hot(index, self.logits.shape[-1], dtype=self.logits.dtype)

    def log_prob(self, value):
        return jnp.where(value > 0, self.logits, 0).sum(-1)

    def entropy(self):
        return -(self.probs * jnp.maximum(self.logits, jnp.finfo(self.logits.dtype).min)).sum(-1)
