import jax.numpy as jnp


def set_where(x, mask, value):
    """torch's `x[mask] = value`, where the mask may have fewer axes than x: those are the first ones of x."""
    mask = jnp.expand_dims(mask, tuple(range(mask.ndim, x.ndim)))
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)
