import jax.numpy as jnp


def power(x, exponent):
    """`x ** exponent`, of integers too: a negative exponent gives 0, where it is no power of 1 or -1."""
    if not jnp.issubdtype(jnp.result_type(x, exponent), jnp.integer):
        return x**exponent
    return jnp.where((exponent < 0) & (jnp.abs(x) != 1), 0, x ** jnp.abs(exponent))
