import jax.numpy as jnp


def nll_loss(log_probs, labels, ignore_index=-100, reduction="mean"):
    """Negative log-likelihood of integer labels as torch has it: classes on axis 1, `ignore_index` left out."""
    axis = min(1, log_probs.ndim - 1)
    kept = labels != ignore_index
    index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
    losses = jnp.where(kept, -jnp.take_along_axis(log_probs, index, axis).squeeze(axis), 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()
