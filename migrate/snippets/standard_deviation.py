import jax.numpy as jnp


def standard_deviation(x, **options):
    """`x.std(**options)`, whose gradient where all are equal is 0, as in torch; else it is NaN."""
    var = x.var(**options)
    return jnp.where(var == 0, 0, jnp.sqrt(jnp.where(var == 0, 1, var)))
