import jax.numpy as jnp


def binary_cross_entropy(probs, targets):
    """Binary cross entropy of probabilities; as in torch the logarithms are clamped at -100, so 0 and 1 stay finite."""

    def log(p):
        return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1)), -100).clip(-100)

    return -(targets * log(probs) + (1 - targets) * log(1 - probs))
