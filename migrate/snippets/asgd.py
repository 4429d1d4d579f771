import jax
import jax.numpy as jnp
import optax


def asgd(learning_rate=1e-2, lambd=1e-4, alpha=0.75):
    """torch.optim.ASGD: weights shrink, and the rate decays; the average that it keeps beside them is left out."""

    def init(params):
        return {"count": jnp.zeros([], jnp.int32), "rate": jnp.asarray(learning_rate, float)}

    def update(grads, state, params):
        count, rate = state["count"] + 1, state["rate"]
        updates = jax.tree.map(lambda g, p: -rate * (lambd * p + g), grads, params)
        rate = jnp.asarray(learning_rate / (1 + lambd * learning_rate * count) ** alpha, float)
        return updates, {"count": count, "rate": rate}

    return optax.GradientTransformation(init, update)
