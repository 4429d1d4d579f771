import jax.numpy as jnp


def kthvalue(x, k, axis=-1, keepdims=False):
    """The k-th smallest value along an axis, counted from 1, and its index."""
    index = jnp.argsort(x, axis=axis).take(jnp.array([k - 1]), axis=axis)
    values = jnp.take_along_axis(x, index, axis=axis)
    return (values, index) if keepdims else (values.squeeze(axis), index.squeeze(axis))
