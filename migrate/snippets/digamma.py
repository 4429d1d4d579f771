import jax
import jax.numpy as jnp


def digamma(x):
    """JAX's, reflected below 0, where its own derivative is not exact; at the poles what torch has."""
    x = x * 1.0
    below = x <= 0
    beside = x - jnp.round(x)
    cotangent = 1 / jnp.tan(jnp.pi * jnp.where(below, beside, 0.25))
    y = jax.scipy.special.digamma(jnp.where(below, 1 - x, x)) - jnp.where(below, jnp.pi * cotangent, 0)
    return jnp.where((x < 0) & (beside == 0), jnp.nan, y)
