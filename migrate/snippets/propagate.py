import jax.numpy as jnp


def propagate(x, source, target, weight):
    """What each node is sent along the edges, added up: the features of their sources, weighted."""
    return jnp.zeros_like(x).at[..., target, :].add(jnp.reshape(weight, (-1, 1)) * x[..., source, :])
