import jax.numpy as jnp


def split(x, size, axis=0):
    """Parts of the sizes of a list; or of one size, the last part shorter where the length does not divide."""
    if isinstance(size, int):
        return jnp.split(x, list(range(size, x.shape[axis], size)), axis)
    return jnp.split(x, [sum(size[:number]) for number in range(1, len(size))], axis)
