import jax.numpy as jnp
import numpy as np


def max_unpool(x, indices, window_shape, strides, padding, output_size=None):
    """Puts values back where max pooling found them, and zeros elsewhere; of channel-first data."""
    first = x.ndim - len(window_shape)
    sizes = [
        (old - 1) * stride - 2 * pad + window
        for old, window, stride, pad in zip(x.shape[first:], window_shape, strides, padding)
    ]
    sizes = sizes if output_size is None else list(output_size[-len(sizes) :])
    rows = int(np.prod(x.shape[:first]))
    flat = jnp.zeros((rows, int(np.prod(sizes))), x.dtype)
    flat = flat.at[jnp.arange(rows)[:, None], indices.reshape(rows, -1)].set(x.reshape(rows, -1))
    return flat.reshape(*x.shape[:first], *sizes)
