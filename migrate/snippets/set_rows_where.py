import jax.numpy as jnp


def set_rows_where(x, mask, rows):
    """torch's `x[mask] = rows`, with a row for each True, or one for all. The mask has the first axes of x."""
    rows = jnp.asarray(rows, x.dtype)
    if not rows.size:  # of no True
        return x
    if rows.ndim > x.ndim - mask.ndim:
        rows = rows[jnp.cumsum(mask.reshape(-1)) - 1].reshape(*mask.shape, *rows.shape[1:])
    return jnp.where(jnp.expand_dims(mask, tuple(range(mask.ndim, x.ndim))), rows, x)
