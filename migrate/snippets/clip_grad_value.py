import jax
import jax.numpy as jnp


def clip_grad_value(grads, limit):
    """Clamps each element of the gradients to [-limit, limit]."""
    return jax.tree.map(lambda g: jnp.clip(g, -limit, limit), grads)
