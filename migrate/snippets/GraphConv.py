import flax.linen as nn
import jax.numpy as jnp

from migrate.snippets.segment_reduce import segment_reduce
from migrate.snippets.torch_init import torch_init


class GraphConv(nn.Module):
    """PyG's graph convolution of higher orders: the weighted neighbours and the node itself, each by a matrix.

    x may be a pair: the features of the sources, and those of the targets or None.
    """

    features: int
    aggr: str = "add"
    bias: bool = True

    @nn.compact
    def __call__(self, x, edge_index, edge_weight=None, size=None):
        sources, targets = x if isinstance(x, tuple | list) else (x, x)
        count = size[1] if targets is None else len(targets)
        messages = sources[edge_index[0]]
        messages = messages if edge_weight is None else jnp.reshape(edge_weight, (-1, 1)) * messages
        neighbours = segment_reduce(messages, edge_index[1], count, self.aggr)
        init = torch_init(fan_in=sources.shape[-1])
        y = nn.Dense(self.features, use_bias=self.bias, **init, name="lin_rel")(neighbours)
        if targets is None:
            return y
        init = torch_init(fan_in=targets.shape[-1])
        return y + nn.Dense(self.features, use_bias=False, **init, name="lin_root")(targets)
