import jax.numpy as jnp


def absolute(x):
    """|x|, whose gradient at 0 is 0, as in torch; that of `jnp.abs` is 1."""
    return jnp.where(x == 0, 0, jnp.abs(x))
