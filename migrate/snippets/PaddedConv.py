import flax.linen as nn
import jax.numpy as jnp


class PaddedConv(nn.Conv):
    """A convolution whose input is padded first, by "reflect", "edge" or "wrap" as `jnp.pad` calls it."""

    pad_width: tuple = ()
    pad_mode: str = "reflect"

    def __call__(self, x):
        return super().__call__(jnp.pad(x, [(0, 0), *self.pad_width, (0, 0)], self.pad_mode))
