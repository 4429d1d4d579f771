import jax.numpy as jnp


def masked_sum(x, mask):
    """torch's `x[mask].sum()`, where the mask may have fewer axes than x: those are the first ones of x."""
    return x.sum(where=jnp.expand_dims(mask, tuple(range(mask.ndim, x.ndim))))
