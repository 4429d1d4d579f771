import flax.linen as nn

from migrate.snippets.gcn_norm import gcn_norm
from migrate.snippets.propagate import propagate
from migrate.snippets.torch_init import torch_init


class TAGConv(nn.Module):
    """PyG's topology adaptive convolution: x W_0 + A x W_1 + ... + A^K x W_K + b, of weighted edges without loops."""

    features: int
    K: int = 3
    bias: bool = True
    normalize: bool = True

    @nn.compact
    def __call__(self, x, edge_index, edge_weight=None):
        (source, target), weight = edge_index, 1 if edge_weight is None else edge_weight
        if self.normalize:
            source, target, weight = gcn_norm(edge_index, edge_weight, x.shape[-2], x.dtype, add_self_loops=False)
        init = torch_init(fan_in=x.shape[-1])
        y = nn.Dense(self.features, use_bias=False, **init, name="lins_0")(x)
        for number in range(1, self.K + 1):
            x = propagate(x, source, target, weight)
            y = y + nn.Dense(self.features, use_bias=False, **init, name=f"lins_{number}")(x)
        return y + self.param("bias", nn.initializers.zeros, (self.features,)) if self.bias else y
