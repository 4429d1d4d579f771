import jax
import jax.numpy as jnp


def polygamma(n, x):
    """JAX's, for n from 1, reflected below 0, where JAX's is not exact; infinite at the poles, as torch's."""
    x = x * 1.0
    below, beside = x <= 0, x - jnp.round(x)
    sign = -1.0 if n % 2 else 1.0

    def cotangent(x):
        return jnp.pi * jnp.cos(jnp.pi * x) / jnp.sin(jnp.pi * x)

    slope = cotangent
    for _ in range(n):
        slope = jax.grad(slope)
    pole = below & (beside == 0)
    y = jax.scipy.special.polygamma(n, jnp.where(below, 1 - x, x))
    slopes = jnp.vectorize(slope)(jnp.where(below & ~pole, beside, 0.25))
    return jnp.where(pole, -sign * jnp.inf, jnp.where(below, sign * y - slopes, y))
