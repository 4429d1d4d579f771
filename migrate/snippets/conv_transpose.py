import jax
import jax.numpy as jnp


def conv_transpose(x, weight, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """torch's transposed convolution of (batch, in, *space) with a weight of (in, out / groups, *window)."""
    if x.ndim < weight.ndim:  # without a batch
        return conv_transpose(x[None], weight, stride, padding, output_padding, groups, dilation)[0]
    n = x.ndim - 2

    def each(value):
        return (value,) * n if isinstance(value, int) else tuple(value)

    pads = []
    settings = zip(weight.shape[2:], each(dilation), each(padding), each(output_padding), strict=True)
    for size, spread, pad, extra in settings:
        reach = spread * (size - 1) - pad
        pads.append((reach, reach + extra))
    parts = jnp.flip(weight, tuple(range(2, n + 2))).reshape(groups, -1, *weight.shape[1:])
    kernel = parts.swapaxes(1, 2).reshape(-1, weight.shape[0] // groups, *weight.shape[2:])
    return jax.lax.conv_general_dilated(
        x, kernel, (1,) * n, pads, lhs_dilation=each(stride), rhs_dilation=each(dilation), feature_group_count=groups
    )
