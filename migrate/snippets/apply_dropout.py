import jax
import jax.numpy as jnp


def apply_dropout(key, x, rate, training=True):
    """Zeroes elements with probability `rate` and scales the others by 1 / (1 - rate), in train mode."""
    if not training or rate == 0:
        return x
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0) if rate < 1 else jnp.zeros_like(x)
