import flax.linen as nn
import jax.numpy as jnp


class PReLU(nn.Module):
    """A leaky ReLU whose slope is learnt: one for all channels, or one for each (of axis 1)."""

    init_value: float = 0.25
    num_parameters: int = 1

    @nn.compact
    def __call__(self, x):
        slope = self.param("negative_slope", nn.initializers.constant(self.init_value), (self.num_parameters,))
        return jnp.where(x > 0, x, slope.reshape(-1, *[1] * (x.ndim - 2)) * x)
