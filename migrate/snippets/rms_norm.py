import jax
import jax.numpy as jnp


def rms_norm(x, shape, weight=None, eps=None):
    """Divides by the root of the mean square over the trailing axes, as many as `shape` has."""
    axes = tuple(range(-len(shape), 0))
    eps = jnp.finfo(x.dtype).eps if eps is None else eps
    y = x * jax.lax.rsqrt(jnp.square(x).mean(axes, keepdims=True) + eps)
    return y if weight is None else y * weight
