import jax.numpy as jnp


def masked_max(x, mask):
    """torch's `x[mask].max()`, where the mask may have fewer axes than x: those are the first ones of x."""
    return x.max(where=jnp.expand_dims(mask, tuple(range(mask.ndim, x.ndim))), initial=-jnp.inf)
