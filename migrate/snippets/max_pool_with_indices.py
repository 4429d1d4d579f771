import jax.numpy as jnp
import numpy as np

from migrate.snippets.max_along import max_along


def max_pool_with_indices(x, window_shape, strides, padding, dilation, ceil_mode=False):
    """The largest value of each window, and where it lies in its flattened channel, of channel-first data."""
    first = x.ndim - len(window_shape)
    index = jnp.broadcast_to(jnp.arange(np.prod(x.shape[first:])).reshape(x.shape[first:]), x.shape)
    for axis, (window, stride, pad, step) in enumerate(zip(window_shape, strides, padding, dilation), first):
        size, extent = x.shape[axis], step * (window - 1) + 1
        last = (size + 2 * pad - extent) / stride
        last = int(np.ceil(last)) if ceil_mode else int(last)
        if last * stride >= size + pad:  # torch lets no window start in the padding behind
            last -= 1
        places = np.arange(last + 1)[:, None] * stride - pad + np.arange(window) * step
        x, index = max_along(x, index, axis, np.where(places < size, places, -1).clip(-1))
    return x, index
