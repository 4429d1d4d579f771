import flax.linen as nn
import jax
import jax.numpy as jnp

from migrate.snippets.edge_softmax import edge_softmax
from migrate.snippets.with_loops import with_loops


class GATConv(nn.Module):
    """PyG's graph attention: each node adds up its neighbours and itself, by a softmax over them for each head."""

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
        count, shape = len(x), (1, self.heads, self.features)
        glorot = nn.initializers.xavier_uniform()
        width = self.heads * self.features
        projected = nn.Dense(width, use_bias=False, kernel_init=glorot, name="lin")(x).reshape(-1, *shape[1:])
        att_src, att_dst = (self.param(f"att_{end}", glorot, shape) for end in ("src", "dst"))

        (source, target), old = edge_index, False
        if self.add_self_loops:
            source, target, old = with_loops(edge_index, count)
        scores = (projected * att_src).sum(-1)[source] + (projected * att_dst).sum(-1)[target]
        scores = jnp.where(jnp.reshape(old, (-1, 1)), -jnp.inf, nn.leaky_relu(scores, self.negative_slope))
        weights = edge_softmax(scores, target, count)
        weights = nn.Dropout(self.dropout, deterministic=not self.training)(weights)

        y = jax.ops.segment_sum(weights[..., None] * projected[source], target, count)
        y = y.reshape(count, width) if self.concat else y.mean(1)
        if self.residual:
            y = y + nn.Dense(y.shape[-1], use_bias=False, kernel_init=glorot, name="res")(x)
        return y + self.param("bias", nn.initializers.zeros, y.shape[-1:]) if self.bias else y
