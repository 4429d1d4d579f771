import jax
import jax.numpy as jnp
import optax


def scale_by_adagrad(initial_accumulator_value=0.0, eps=1e-10, lr_decay=0.0):
    """Adagrad with torch's decay of the learning rate, and its epsilon outside the root."""

    def init(params):
        sums = jax.tree.map(lambda p: jnp.full_like(p, initial_accumulator_value), params)
        return {"count": jnp.zeros([], jnp.int32), "sums": sums}

    def update(grads, state, params=None):
        sums = jax.tree.map(lambda s, g: s + g * g, state["sums"], grads)
        rate = 1 / (1 + state["count"] * lr_decay)
        updates = jax.tree.map(lambda g, s: rate * g / (jnp.sqrt(s) + eps), grads, sums)
        return updates, {"count": state["count"] + 1, "sums": sums}

    return optax.GradientTransformation(init, update)
