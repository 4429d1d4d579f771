import jax.numpy as jnp


def weighted_nll_loss(log_probs, labels, weight, ignore_index=-100, reduction="mean"):
    """Negative log-likelihood with a weight for each class; as in torch the mean divides by the weights."""
    axis = min(1, log_probs.ndim - 1)
    kept = labels != ignore_index
    labels = jnp.where(kept, labels, 0)
    weights = weight[labels] * kept
    losses = -jnp.take_along_axis(log_probs, jnp.expand_dims(labels, axis), axis).squeeze(axis) * weights
    if reduction == "none":
        return losses
    return losses.sum() / weights.sum() if reduction == "mean" else losses.sum()
