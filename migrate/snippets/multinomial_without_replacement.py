import jax
import jax.numpy as jnp


def multinomial_without_replacement(key, probs, num_samples):
    """Draws different indices of each row of `probs`, one after the other with probability proportional to it."""
    noisy = jnp.log(probs) + jax.random.gumbel(key, probs.shape, probs.dtype)
    return jax.lax.top_k(noisy, num_samples)[1]
