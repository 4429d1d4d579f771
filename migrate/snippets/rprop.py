import jax
import jax.numpy as jnp
import optax


def rprop(learning_rate=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    """Steps of a size of their own for each weight, which grows while the gradient keeps its sign."""

    def init(params):
        sizes = jax.tree.map(lambda p: jnp.full_like(p, learning_rate), params)
        return {"previous": jax.tree.map(jnp.zeros_like, params), "sizes": sizes}

    def update(grads, state, params=None):
        def factor(g, previous):
            return jnp.select([g * previous > 0, g * previous < 0], [etas[1], etas[0]], 1.0)

        factors = jax.tree.map(factor, grads, state["previous"])
        sizes = jax.tree.map(lambda s, f: jnp.clip(s * f, *step_sizes), state["sizes"], factors)
        grads = jax.tree.map(lambda g, f: jnp.where(f == etas[0], 0.0, g), grads, factors)
        updates = jax.tree.map(lambda g, s: -jnp.sign(g) * s, grads, sizes)
        return updates, {"previous": grads, "sizes": sizes}

    return optax.GradientTransformation(init, update)
