import flax.linen as nn
import jax
import jax.numpy as jnp


class Bilinear(nn.Module):
    """a @ W_o @ b for each output o: the weight is torch's, (outputs, features of a, features of b)."""

    features: int
    bias: bool = True

    @nn.compact
    def __call__(self, a, b):
        def uniform(key, shape):
            bound = a.shape[-1] ** -0.5
            return jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        weight = self.param("weight", uniform, (self.features, a.shape[-1], b.shape[-1]))
        y = jnp.einsum("...i,oij,...j->...o", a, weight, b)
        return y + self.param("bias", uniform, (self.features,)) if self.bias else y
