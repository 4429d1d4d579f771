from collections.abc import Mapping
from typing import Any

import flax.linen as nn


class NamedSequential(nn.Module):
    """Layers in a row that have names of their own."""

    layers: Mapping[str, Any]

    def __call__(self, x):
        for layer in self.layers.values():
            x = layer(x)
        return x
