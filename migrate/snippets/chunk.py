import jax.numpy as jnp


def chunk(x, count, axis=0):
    """Equal parts along an axis; where `count` does not divide its length, the last one is shorter, or there are
    fewer."""
    length = x.shape[axis]
    if length % count == 0:
        return jnp.split(x, count, axis)
    size = -(-length // count)
    return jnp.split(x, list(range(size, length, size)), axis)
