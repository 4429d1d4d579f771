import jax
import jax.numpy as jnp
import optax


def dampened_momentum(decay, dampening, nesterov=False):
    """Momentum to which each gradient but the first counts for 1 - dampening, as in torch."""

    def init(params):
        return {"first": jnp.ones([], bool), "trace": jax.tree.map(jnp.zeros_like, params)}

    def update(grads, state, params=None):
        share = jnp.where(state["first"], 1.0, 1 - dampening)
        trace = jax.tree.map(lambda t, g: decay * t + share * g, state["trace"], grads)
        updates = jax.tree.map(lambda g, t: g + decay * t, grads, trace) if nesterov else trace
        return updates, {"first": jnp.zeros([], bool), "trace": trace}

    return optax.GradientTransformation(init, update)
