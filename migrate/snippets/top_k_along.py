import jax
import jax.numpy as jnp


def top_k_along(x, k, axis=-1, largest=True):
    """The k largest (or smallest) values along any axis, and where they are."""
    moved = jnp.moveaxis(x, axis, -1)
    values, indices = jax.lax.top_k(moved if largest else -moved, k)
    values = values if largest else -values
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis)
