import flax.linen as nn
import jax.numpy as jnp


class SequentialWithBlocks(nn.Sequential):
    """Layers in a row whose channels are last; modules of the classes `blocks` among them have theirs on axis 1."""

    blocks: tuple[type, ...] = ()

    def __call__(self, x):
        for layer in self.layers:
            if isinstance(layer, self.blocks):
                x = jnp.moveaxis(layer(jnp.moveaxis(x, -1, 1)), 1, -1)
            else:
                x = layer(x)
        return x
