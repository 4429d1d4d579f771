import flax.linen as nn

from migrate.snippets.segment_reduce import segment_reduce
from migrate.snippets.torch_init import torch_init


class SAGEConv(nn.Module):
    """PyG's GraphSAGE: what the neighbours' features are reduced to, and those of the node itself, each by a matrix.

    x may be a pair: the features of the sources, and those of the targets or None.
    """

    features: int
    aggr: str = "mean"
    normalize: bool = False
    root_weight: bool = True
    project: bool = False
    bias: bool = True

    @nn.compact
    def __call__(self, x, edge_index, size=None):
        sources, targets = x if isinstance(x, tuple | list) else (x, x)
        count = size[1] if targets is None else len(targets)
        if self.project:
            init = torch_init(fan_in=sources.shape[-1])
            sources = nn.relu(nn.Dense(sources.shape[-1], **init, name="lin")(sources))
        neighbours = segment_reduce(sources[edge_index[0]], edge_index[1], count, self.aggr)
        init = torch_init(fan_in=sources.shape[-1])
        y = nn.Dense(self.features, use_bias=self.bias, **init, name="lin_l")(neighbours)
        if self.root_weight and targets is not None:
            init = torch_init(fan_in=targets.shape[-1])
            y = y + nn.Dense(self.features, use_bias=False, **init, name="lin_r")(targets)
        return y / (y * y).sum(-1, keepdims=True).clip(1e-24) ** 0.5 if self.normalize else y
