import jax
import jax.numpy as jnp


def drop_channels(key, x, rate, training=True, unbatched=0):
    """Zeroes whole channels with probability `rate` and scales the others by 1 / (1 - rate). They are on axis 1, or on
    axis 0 of an input of up to `unbatched` axes."""
    if not training or rate == 0:
        return x
    kept = x.shape[: 1 if x.ndim <= unbatched else 2]
    keep = jax.random.bernoulli(key, 1 - rate, kept + (1,) * (x.ndim - len(kept)))
    return jnp.where(keep, x / (1 - rate), 0) if rate < 1 else jnp.zeros_like(x)
