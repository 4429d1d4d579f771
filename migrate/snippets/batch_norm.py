import jax


def batch_norm(x, mean=None, var=None, weight=None, bias=None, eps=1e-5):
    """Normalises each channel (axis 1) by the given statistics, or by those of the batch."""
    others = tuple(i for i in range(x.ndim) if i != 1)
    if mean is None:
        mean = x.mean(others)
        var = x.var(others)
    shape = [-1 if i == 1 else 1 for i in range(x.ndim)]
    y = (x - mean.reshape(shape)) * jax.lax.rsqrt(var + eps).reshape(shape)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)
