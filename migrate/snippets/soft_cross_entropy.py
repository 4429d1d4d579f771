import jax


def soft_cross_entropy(logits, targets, reduction="mean", label_smoothing=0.0):
    """Cross entropy of probabilities: classes on axis 1 (of a vector, on its only axis)."""
    axis = min(1, logits.ndim - 1)
    targets = (1 - label_smoothing) * targets + label_smoothing / logits.shape[axis]
    losses = -(targets * jax.nn.log_softmax(logits, axis)).sum(axis)
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()
