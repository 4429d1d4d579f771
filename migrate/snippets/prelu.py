import jax.numpy as jnp


def prelu(x, slope):
    """A leaky ReLU of one slope, or of one for each channel (axis 1)."""
    slope = slope.reshape([-1 if i == 1 else 1 for i in range(x.ndim)])
    return jnp.where(x > 0, x, slope * x)
