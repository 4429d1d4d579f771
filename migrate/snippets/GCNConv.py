import flax.linen as nn

from migrate.snippets.gcn_norm import gcn_norm
from migrate.snippets.propagate import propagate


class GCNConv(nn.Module):
    """PyG's graph convolution: D^-1/2 (A + I) D^-1/2 x W + b."""

    features: int
    improved: bool = False
    add_self_loops: bool | None = None
    normalize: bool = True
    bias: bool = True

    @nn.compact
    def __call__(self, x, edge_index, edge_weight=None):
        x = nn.Dense(self.features, use_bias=False, kernel_init=nn.initializers.xavier_uniform(), name="lin")(x)
        if self.normalize:
            loops = self.add_self_loops is not False
            source, target, weight = gcn_norm(edge_index, edge_weight, x.shape[-2], x.dtype, self.improved, loops)
        else:
            (source, target), weight = edge_index, 1 if edge_weight is None else edge_weight
        y = propagate(x, source, target, weight)
        return y + self.param("bias", nn.initializers.zeros, (self.features,)) if self.bias else y
