import jax
import jax.numpy as jnp


def edge_softmax(scores, target, count):
    """The softmax of the edges' scores over those that end in the same of `count` nodes."""
    highest = jax.lax.stop_gradient(jax.ops.segment_max(scores, target, count))[target]
    weights = jnp.exp(scores - jnp.where(jnp.isfinite(highest), highest, 0))
    return weights / (jax.ops.segment_sum(weights, target, count) + 1e-16)[target]
