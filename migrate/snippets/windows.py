import jax.numpy as jnp


def windows(x, axis, size, step):
    """Windows along an axis, on a new last axis, as Tensor.unfold has them."""
    axis %= x.ndim
    starts = jnp.arange(0, x.shape[axis] - size + 1, step)
    return jnp.moveaxis(jnp.take(x, starts[:, None] + jnp.arange(size), axis), axis + 1, -1)
