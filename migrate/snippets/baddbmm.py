import jax.numpy as jnp


def baddbmm(x, a, b, beta=1.0, alpha=1.0):
    """beta * x + alpha * (a @ b), whose scales are cut off to integers among integers, as in torch."""
    return jnp.asarray(beta, x.dtype) * x + jnp.asarray(alpha, x.dtype) * (a @ b)
