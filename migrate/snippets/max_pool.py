import jax
import jax.numpy as jnp
import numpy as np


def max_pool(x, window_shape, strides, padding, ceil_mode=False):
    """The largest value of each window of channel-last data; the last window may reach over the edge if `ceil_mode`."""
    pads = [(0, 0)]
    for size, window, stride, pad in zip(x.shape[1:], window_shape, strides, padding):
        last = (size + 2 * pad - window) / stride
        last = int(np.ceil(last)) if ceil_mode else int(last)
        if last * stride >= size + pad:  # torch lets no window start in the padding behind
            last -= 1
        pads.append((pad, max(last * stride + window - size - pad, 0)))
    windows = ((1, *window_shape, 1), (1, *strides, 1), [*pads, (0, 0)])
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *windows)
