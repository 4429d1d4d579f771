import flax.linen as nn
import jax
import jax.numpy as jnp


class RReLU(nn.Module):
    """A leaky ReLU whose slope is drawn for each element in train mode, and is the mean of the two bounds otherwise."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    training: bool = False

    def __call__(self, x):
        slope = (self.lower + self.upper) / 2
        if self.training:
            slope = jax.random.uniform(self.make_rng("dropout"), x.shape, x.dtype, self.lower, self.upper)
        return jnp.where(x > 0, x, slope * x)
