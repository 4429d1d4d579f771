import jax.numpy as jnp


def kl_div(log_probs, targets):
    """Pointwise Kullback-Leibler divergence of log-probabilities from probabilities; a target of 0 counts as 0."""
    positive = targets > 0
    log_targets = jnp.log(jnp.where(positive, targets, 1))
    return jnp.where(positive, targets * log_targets, 0) - targets * log_probs
