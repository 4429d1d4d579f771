import jax
import jax.numpy as jnp


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    """Layer normalisation over the trailing axes, as many as `shape` has; weight and bias are of that shape."""
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdims=True)
    y = centred * jax.lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias
