import flax.linen as nn

from migrate.snippets.gcn_norm import gcn_norm
from migrate.snippets.propagate import propagate
from migrate.snippets.torch_init import torch_init


class SGConv(nn.Module):
    """PyG's simple graph convolution: (D^-1/2 (A + I) D^-1/2)^K x W + b."""

    features: int
    K: int = 1
    add_self_loops: bool = True
    bias: bool = True

    @nn.compact
    def __call__(self, x, edge_index, edge_weight=None):
        source, target, weight = gcn_norm(
            edge_index, edge_weight, x.shape[-2], x.dtype, add_self_loops=self.add_self_loops
        )
        for _ in range(self.K):
            x = propagate(x, source, target, weight)
        return nn.Dense(self.features, use_bias=self.bias, **torch_init(fan_in=x.shape[-1]), name="lin")(x)
