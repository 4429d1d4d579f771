import flax.linen as nn
import jax.numpy as jnp


class PReLU(nn.Module):
    """A leaky ReLU whose slope is learnt, one for all channels."""

    init_value: float = 0.25

    @nn.compact
    def __call__(self, x):
        slope = self.param("negative_slope", nn.initializers.constant(self.init_value), (1,))
        return jnp.where(x > 0, x, slope * x)
