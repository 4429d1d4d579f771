import jax.numpy as jnp


def pixel_unshuffle(x, factor):
    """(..., channels, height * factor, width * factor) becomes (..., channels * factor**2, height, width)."""
    *batch, channels, height, width = x.shape
    height, width = height // factor, width // factor
    x = x.reshape(*batch, channels, height, factor, width, factor)
    return jnp.moveaxis(x, (-3, -1), (-4, -3)).reshape(*batch, channels * factor**2, height, width)
