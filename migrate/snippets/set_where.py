import jax.numpy as jnp


def set_where(x, mask, value):
    """torch's `x[mask] = value`. The mask has the first axes of x; the value is one for all, or a row for each True."""
    value = jnp.asarray(value, x.dtype)
    if not value.size:  # of no True
        return x
    if value.ndim > x.ndim - mask.ndim:
        value = value[jnp.cumsum(mask.reshape(-1)) - 1].reshape(*mask.shape, *value.shape[1:])
    return jnp.where(jnp.expand_dims(mask, tuple(range(mask.ndim, x.ndim))), value, x)
