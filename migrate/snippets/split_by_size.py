import jax.numpy as jnp


def split_by_size(x, size, axis=0):
    """Parts of `size` along an axis; the last one is shorter where the length does not divide."""
    return jnp.split(x, list(range(size, x.shape[axis], size)), axis)
