import jax
import jax.numpy as jnp


def gaussian_nll_loss(mean, target, var, eps=1e-6, full=False):
    """Negative log-likelihood of a normal distribution, its constant only if `full`; var counts as `eps` at least."""
    var = var[..., None] if var.ndim < mean.ndim else var  # one for each row
    var = var + jax.lax.stop_gradient(jnp.maximum(var, eps) - var)
    constant = jnp.log(2 * jnp.pi) / 2 if full else 0
    return (jnp.log(var) + jnp.square(mean - target) / var) / 2 + constant
