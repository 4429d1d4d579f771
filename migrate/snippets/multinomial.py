import jax
import jax.numpy as jnp


def multinomial(key, probs, num_samples):
    """Draws indices with probability proportional to each row of `probs`, on a new last axis."""
    shape = (num_samples, *probs.shape[:-1])
    return jnp.moveaxis(jax.random.categorical(key, jnp.log(probs), shape=shape), 0, -1)
