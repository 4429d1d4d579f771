from typing import Any

from flax import struct


@struct.dataclass
class Independent:
    """A distribution whose last `axes` axes count as one event: their log-probabilities are summed."""

    base: Any
    axes: int = struct.field(pytree_node=False)

    @property
    def mean(self):
        return self.base.mean

    def _summed(self, x):
        return x.sum(tuple(range(-self.axes, 0)))

    def sample(self, key, shape=()):
        return self.base.sample(key, shape)

    def log_prob(self, value):
        return self._summed(self.base.log_prob(value))

    def entropy(self):
        return self._summed(self.base.entropy())

    def kl_divergence(self, other):
        return self._summed(self.base.kl_divergence(other.base))
