import flax.linen as nn
import jax.numpy as jnp

from migrate.snippets.gcn_norm import gcn_norm
from migrate.snippets.propagate import propagate


class APPNP(nn.Module):
    """PyG's propagation by personalised PageRank: x = (1 - alpha) A x + alpha x0, K times."""

    K: int
    alpha: float
    dropout: float = 0.0
    add_self_loops: bool = True
    normalize: bool = True
    training: bool = False

    @nn.compact
    def __call__(self, x, edge_index, edge_weight=None):
        (source, target), weight, first = edge_index, edge_weight, x
        if self.normalize:
            source, target, weight = gcn_norm(
                edge_index, edge_weight, x.shape[-2], x.dtype, add_self_loops=self.add_self_loops
            )
        elif weight is None:
            weight = jnp.ones(len(source), x.dtype)
        for _ in range(self.K):
            weight = nn.Dropout(self.dropout, deterministic=not self.training)(weight)
            x = (1 - self.alpha) * propagate(x, source, target, weight) + self.alpha * first
        return x
