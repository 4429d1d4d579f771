from collections.abc import Callable

import flax.linen as nn


class Lazy(nn.Module):
    """A layer that is made once the number of its inputs is known, on which torch's initial weights depend."""

    make_layer: Callable[[int], nn.Module]

    @nn.compact
    def __call__(self, x):
        layer = self.make_layer(x.shape[-1])
        nn.share_scope(self, layer)  # its weights are called as without the wrapping
        return layer(x)
