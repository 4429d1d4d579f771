import jax
import jax.numpy as jnp


def drop_channels(key, x, rate, training=True):
    """Zeroes whole channels (axis 1) with probability `rate` and scales the others by 1 / (1 - rate)."""
    if not training or rate == 0:
        return x
    keep = jax.random.bernoulli(key, 1 - rate, x.shape[:2] + (1,) * (x.ndim - 2))
    return jnp.where(keep, x / (1 - rate), 0) if rate < 1 else jnp.zeros_like(x)
