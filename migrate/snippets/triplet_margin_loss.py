import flax.linen as nn
import jax.numpy as jnp


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False):
    """How much further than the margin the positive is than the negative."""

    def distance(a, b):
        return jnp.linalg.norm(a - b + eps, ord=p, axis=-1)

    apart = distance(anchor, negative)
    apart = jnp.minimum(apart, distance(positive, negative)) if swap else apart
    return nn.relu(distance(anchor, positive) - apart + margin)
