import jax.numpy as jnp


def logdet(x):
    """The logarithm of the determinant, NaN where that is negative."""
    sign, logarithm = jnp.linalg.slogdet(x)
    return jnp.where(sign < 0, jnp.nan, logarithm)
