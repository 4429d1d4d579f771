import jax.numpy as jnp


def truncated_quotient(x, y):
    """x / y rounded towards zero; of integers an integer."""
    if jnp.issubdtype(jnp.result_type(x, y), jnp.integer):
        return (x - jnp.fmod(x, y)) // y
    return jnp.trunc(x / y)
