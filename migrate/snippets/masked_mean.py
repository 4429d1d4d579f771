import jax.numpy as jnp


def masked_mean(x, mask):
    """torch's `x[mask].mean()`, where the mask may have fewer axes than x: those are the first ones of x."""
    return x.mean(where=jnp.expand_dims(mask, tuple(range(mask.ndim, x.ndim))))
