import jax.numpy as jnp


def log_factorial(n):
    """Stirling's approximation of log n! above 1, 0 up to there."""
    above = jnp.where(n > 1, n, 1)
    return jnp.where(n > 1, above * jnp.log(above) - above + jnp.log(2 * jnp.pi * above) / 2, 0)
