import jax
import jax.numpy as jnp
import numpy as np


def avg_pool(x, window_shape, strides, padding, ceil_mode=False, count_include_pad=True, divisor_override=None):
    """The mean of each window of channel-last data; the last window may reach over the edge if `ceil_mode`."""
    pads, divisor = [(0, 0)], np.ones(())
    for size, window, stride, pad in zip(x.shape[1:], window_shape, strides, padding):
        last = (size + 2 * pad - window) / stride
        last = int(np.ceil(last)) if ceil_mode else int(last)
        if last * stride >= size + pad:  # torch lets no window start in the padding behind
            last -= 1
        pads.append((pad, max(last * stride + window - size - pad, 0)))
        begin = np.arange(last + 1) * stride - pad
        if count_include_pad:
            count = np.minimum(begin + window, size + pad) - begin
        else:
            count = np.minimum(begin + window, size) - np.maximum(begin, 0)
        divisor = divisor[..., None] * count
    windows = ((1, *window_shape, 1), (1, *strides, 1), [*pads, (0, 0)])
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, *windows)
    return total / jnp.asarray(divisor[..., None] if divisor_override is None else divisor_override, x.dtype)
