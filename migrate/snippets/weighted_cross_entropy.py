import jax
import jax.numpy as jnp


def weighted_cross_entropy(logits, labels, weight, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Cross entropy with a weight for each class; as in torch the mean divides by the weights of the labels."""
    axis = min(1, logits.ndim - 1)
    log_probs = jax.nn.log_softmax(logits, axis)
    if labels.shape == logits.shape:  # probabilities
        losses = -jnp.tensordot(jnp.moveaxis(labels * log_probs, axis, -1), weight, 1)
        kept, weights = jnp.ones_like(losses, bool), jnp.ones_like(losses)
    else:
        kept = labels != ignore_index
        labels = jnp.where(kept, labels, 0)
        weights = weight[labels] * kept
        losses = -jnp.take_along_axis(log_probs, jnp.expand_dims(labels, axis), axis).squeeze(axis) * weights
    if label_smoothing:  # not 0 times the mean, which may be infinite
        smooth = -jnp.tensordot(jnp.moveaxis(log_probs, axis, -1), weight, 1) / logits.shape[axis]
        losses = (1 - label_smoothing) * losses + label_smoothing * smooth
    losses = jnp.where(kept, losses, 0)
    if reduction == "none":
        return losses
    return losses.sum() / weights.sum() if reduction == "mean" else losses.sum()
