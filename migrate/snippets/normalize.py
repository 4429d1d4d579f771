import jax.numpy as jnp


def normalize(x, axis=1, eps=1e-12):
    """Divides by the norm along an axis, which counts as `eps` at least."""
    return x / jnp.sqrt(jnp.square(x).sum(axis, keepdims=True).clip(eps**2))
