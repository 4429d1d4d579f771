import flax.linen as nn
import jax
import jax.numpy as jnp

from migrate.snippets.edge_softmax import edge_softmax
from migrate.snippets.torch_init import torch_init
from migrate.snippets.with_loops import with_loops


class GATv2Conv(nn.Module):
    """PyG's dynamic graph attention: as GATConv, but the scores are of both ends of an edge together."""

    features: int
    heads: int = 1
    concat: bool = True
    negative_slope: float = 0.2
    dropout: float = 0.0
    add_self_loops: bool = True
    bias: bool = True
    residual: bool = False
    training: bool = False

    @nn.compact
    def __call__(self, x, edge_index):
        count, width = len(x), self.heads * self.features
        glorot = nn.initializers.xavier_uniform()
        init = torch_init(fan_in=x.shape[-1], kernel_init=glorot)
        sources, targets = (nn.Dense(width, use_bias=self.bias, **init, name=f"lin_{end}")(x) for end in "lr")
        sources, targets = (ends.reshape(-1, self.heads, self.features) for ends in (sources, targets))
        att = self.param("att", glorot, (1, self.heads, self.features))

        (source, target), old = edge_index, False
        if self.add_self_loops:
            source, target, old = with_loops(edge_index, count)
        both = nn.leaky_relu(sources[source] + targets[target], self.negative_slope)
        scores = jnp.where(jnp.reshape(old, (-1, 1)), -jnp.inf, (both * att).sum(-1))
        weights = edge_softmax(scores, target, count)
        weights = nn.Dropout(self.dropout, deterministic=not self.training)(weights)

        y = jax.ops.segment_sum(weights[..., None] * sources[source], target, count)
        y = y.reshape(count, width) if self.concat else y.mean(1)
        if self.residual:
            y = y + nn.Dense(y.shape[-1], use_bias=False, kernel_init=glorot, name="res")(x)
        return y + self.param("bias", nn.initializers.zeros, y.shape[-1:]) if self.bias else y
