import jax
import jax.numpy as jnp
import optax


def scale_by_amsgrad(b1=0.9, b2=0.999, eps=1e-8):
    """Adam by the largest second moment so far: torch takes the maximum before the correction of the bias."""

    def init(params):
        mu, nu, nu_max = (jax.tree.map(jnp.zeros_like, params) for _ in range(3))
        return {"count": jnp.zeros([], jnp.int32), "mu": mu, "nu": nu, "nu_max": nu_max}

    def update(grads, state, params=None):
        count = state["count"] + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["mu"], grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["nu"], grads)
        nu_max = jax.tree.map(jnp.maximum, state["nu_max"], nu)
        root = jnp.sqrt(1 - b2**count)
        updates = jax.tree.map(lambda m, v: m / (1 - b1**count) / (jnp.sqrt(v) / root + eps), mu, nu_max)
        return updates, {"count": count, "mu": mu, "nu": nu, "nu_max": nu_max}

    return optax.GradientTransformation(init, update)
