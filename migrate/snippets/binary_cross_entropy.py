import jax
import jax.numpy as jnp


@jax.custom_jvp
def binary_cross_entropy(probs, targets):
    """Binary cross entropy of probabilities; as in torch the logarithms are clamped at -100, so 0 and 1 stay finite."""
    log, log_of_rest = jnp.log(probs).clip(-100), jnp.log1p(-probs).clip(-100)
    return -(targets * log + (1 - targets) * log_of_rest)


@binary_cross_entropy.defjvp
def binary_cross_entropy_jvp(primals, tangents):
    """Torch divides by p (1 - p), but never by less than 1e-12: of smaller probabilities the gradients vanish."""
    (probs, targets), (by_probs, by_targets) = primals, tangents
    slope_by_probs = (probs - targets) / jnp.maximum(probs * (1 - probs), 1e-12)
    slope_by_targets = jnp.log1p(-probs).clip(-100) - jnp.log(probs).clip(-100)
    return binary_cross_entropy(probs, targets), slope_by_probs * by_probs + slope_by_targets * by_targets
