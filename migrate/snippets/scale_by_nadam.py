import jax
import jax.numpy as jnp
import optax


def scale_by_nadam(b1=0.9, b2=0.999, eps=1e-8, momentum_decay=4e-3):
    """Adam with Nesterov momentum whose share grows step by step, as torch has it."""

    def init(params):
        mu, nu = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return {"count": jnp.zeros([], jnp.int32), "product": jnp.ones([]), "mu": mu, "nu": nu}

    def update(grads, state, params=None):
        count = state["count"] + 1
        share = b1 * (1 - 0.5 * 0.96 ** (count * momentum_decay))
        following = b1 * (1 - 0.5 * 0.96 ** ((count + 1) * momentum_decay))
        product = state["product"] * share
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["mu"], grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["nu"], grads)

        def step(g, m, v):
            mean = (1 - share) / (1 - product) * g + following / (1 - product * following) * m
            return mean / (jnp.sqrt(v / (1 - b2**count)) + eps)

        return jax.tree.map(step, grads, mu, nu), {"count": count, "product": product, "mu": mu, "nu": nu}

    return optax.GradientTransformation(init, update)
