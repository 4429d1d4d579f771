import jax.numpy as jnp


def pixel_shuffle(x, factor):
    """(..., channels * factor**2, height, width) becomes (..., channels, height * factor, width * factor)."""
    *batch, channels, height, width = x.shape
    x = x.reshape(*batch, channels // factor**2, factor, factor, height, width)
    x = jnp.moveaxis(x, (-4, -3), (-3, -1))
    return x.reshape(*batch, channels // factor**2, height * factor, width * factor)
