import jax
import jax.numpy as jnp


def cummin(x, axis):
    """The smallest value so far along an axis, and its index: the last of equal ones."""
    axis %= x.ndim
    values = jax.lax.cummin(x, axis)
    place = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return values, jax.lax.cummax(jnp.where(x == values, place, 0), axis)
