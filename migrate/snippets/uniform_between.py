import jax
import jax.numpy as jnp


def uniform_between(low, high):
    """Initial values drawn evenly from low to high; `nn.initializers.uniform` starts at 0."""
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, low, high)
