import jax
import jax.numpy as jnp


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    """Normalises each group of channels (axis 1) of each element of the batch."""
    parts = x.reshape(x.shape[0], groups, -1)
    centred = parts - parts.mean(-1, keepdims=True)
    y = (centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps)).reshape(x.shape)
    shape = [-1 if i == 1 else 1 for i in range(x.ndim)]
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)
