from collections.abc import Callable

import flax.linen as nn

from migrate.snippets.segment_reduce import segment_reduce


class GINConv(nn.Module):
    """PyG's graph isomorphism network: nn((1 + eps) x + the sum of the neighbours).

    x may be a pair: the features of the sources, and those of the targets or None.
    """

    nn: Callable
    eps: float = 0.0
    train_eps: bool = False

    @nn.compact
    def __call__(self, x, edge_index, size=None):
        sources, targets = x if isinstance(x, tuple | list) else (x, x)
        count = size[1] if targets is None else len(targets)
        eps = self.param("eps", nn.initializers.constant(self.eps), (1,)) if self.train_eps else self.eps
        y = segment_reduce(sources[edge_index[0]], edge_index[1], count)
        return self.nn(y if targets is None else y + (1 + eps) * targets)
