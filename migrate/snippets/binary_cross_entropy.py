import jax.numpy as jnp


def binary_cross_entropy(probs, targets):
    """Binary cross entropy of probabilities; as in torch the logarithms are clamped at -100, so 0 and 1 stay finite."""
    log_p = jnp.log(probs).clip(-100)
    log_q = jnp.log1p(-probs).clip(-100)
    return -(targets * log_p + (1 - targets) * log_q)
