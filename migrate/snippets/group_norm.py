import jax
import jax.numpy as jnp


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    """Normalises each group of channels (axis 1) of each element of the batch."""
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    others = tuple(range(2, parts.ndim))
    centred = parts - parts.mean(others, keepdims=True)
    y = (centred * jax.lax.rsqrt(jnp.square(centred).mean(others, keepdims=True) + eps)).reshape(x.shape)
    shape = [-1 if i == 1 else 1 for i in range(x.ndim)]
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)
