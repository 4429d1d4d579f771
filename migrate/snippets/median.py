import jax.numpy as jnp


def median(x, axis=None, keepdims=False):
    """The lower median, as torch has it, and NaN where there is one; along an axis, with its index."""
    if axis is None:
        return median(x.reshape(-1), 0)[0]
    index = jnp.argsort(x, axis=axis).take(jnp.array([(x.shape[axis] - 1) // 2]), axis=axis)
    nan = jnp.isnan(x)
    index = jnp.where(nan.any(axis, keepdims=True), nan.argmax(axis, keepdims=True), index)
    values = jnp.take_along_axis(x, index, axis=axis)
    return (values, index) if keepdims else (values.squeeze(axis), index.squeeze(axis))
