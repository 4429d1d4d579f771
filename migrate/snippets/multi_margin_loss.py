import flax.linen as nn
import jax.numpy as jnp


def multi_margin_loss(scores, labels, p=1, margin=1.0):
    """Hinges of the other classes than the label's, summed and divided by the number of classes."""
    scores = jnp.atleast_1d(scores)
    labels = labels.reshape(*scores.shape[:-1], 1)
    right = jnp.take_along_axis(scores, labels, axis=-1)
    hinges = nn.relu(margin - right + scores) ** p
    others = jnp.arange(scores.shape[-1]) != labels
    return (hinges * others).sum(-1) / scores.shape[-1]
