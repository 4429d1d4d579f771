import jax.numpy as jnp


def median(x, axis=None, keepdims=False):
    """The lower median, as torch has it; along an axis, with its index."""
    if axis is None:
        return jnp.sort(x.reshape(-1))[(x.size - 1) // 2]
    index = jnp.argsort(x, axis=axis).take(jnp.array([(x.shape[axis] - 1) // 2]), axis=axis)
    values = jnp.take_along_axis(x, index, axis=axis)
    return (values, index) if keepdims else (values.squeeze(axis), index.squeeze(axis))
