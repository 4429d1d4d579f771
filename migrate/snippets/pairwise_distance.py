import jax.numpy as jnp


def pairwise_distance(a, b, p=2.0, eps=1e-6, keepdims=False):
    """The p-norm of a - b + eps along the last axis."""
    return jnp.linalg.norm(a - b + eps, ord=p, axis=-1, keepdims=keepdims)
