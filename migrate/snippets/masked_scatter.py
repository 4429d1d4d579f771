import jax.numpy as jnp


def masked_scatter(x, mask, source):
    """Puts the elements of the source, in their order, where the mask is True."""
    x, mask = jnp.broadcast_arrays(x, mask)
    number = jnp.cumsum(mask.reshape(-1)).reshape(x.shape) - 1
    return jnp.where(mask, source.reshape(-1)[number], x)
