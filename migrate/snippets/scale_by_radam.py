import jax
import jax.numpy as jnp
import optax


def scale_by_radam(b1=0.9, b2=0.999, eps=1e-8):
    """Adam with a rectified variance; torch adds epsilon to the root before the correction of its bias."""

    def init(params):
        mu, nu = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return {"count": jnp.zeros([], jnp.int32), "mu": mu, "nu": nu}

    def update(grads, state, params=None):
        count = state["count"] + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["mu"], grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["nu"], grads)
        longest = 2 / (1 - b2) - 1
        length = longest - 2 * count * b2**count / (1 - b2**count)
        certain = length > 5
        safe = jnp.where(certain, length, 6.0)
        ratio = (safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe)
        rectified = jnp.sqrt(ratio * (1 - b2**count))

        def step(m, v):
            return m / (1 - b1**count) * jnp.where(certain, rectified / (jnp.sqrt(v) + eps), 1.0)

        return jax.tree.map(step, mu, nu), {"count": count, "mu": mu, "nu": nu}

    return optax.GradientTransformation(init, update)
