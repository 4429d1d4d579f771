import jax
import jax.numpy as jnp


def normal_around(mean, stddev):
    """Initial values drawn around a mean; `nn.initializers.normal` has them around 0."""
    return lambda key, shape, dtype=jnp.float32: mean + stddev * jax.random.normal(key, shape, dtype)
