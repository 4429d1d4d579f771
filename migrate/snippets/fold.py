import jax.numpy as jnp


def fold(columns, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds the columns of (batch, channels * window, places) up where their windows lie in the image."""

    def pair(n):
        return (n, n) if isinstance(n, int) else tuple(n)

    window, strides, dilations = pair(kernel_size), pair(stride), pair(dilation)
    channels = columns.shape[1] // (window[0] * window[1])
    steps = [
        (size + 2 * pad - d * (k - 1) - 1) // s + 1
        for size, pad, d, k, s in zip(pair(output_size), pair(padding), dilations, window, strides, strict=True)
    ]
    parts = columns.reshape(-1, channels, *window, *steps)
    rows, cols = (
        (jnp.arange(k) * d)[:, None] + jnp.arange(n) * s
        for k, d, n, s in zip(window, dilations, steps, strides, strict=True)
    )
    padded = [size + 2 * pad for size, pad in zip(pair(output_size), pair(padding), strict=True)]
    image = jnp.zeros((len(parts), channels, *padded), columns.dtype)
    image = image.at[:, :, rows[:, None, :, None], cols[None, :, None, :]].add(parts)
    top, left = pair(padding)
    return image[:, :, top : padded[0] - top, left : padded[1] - left]
