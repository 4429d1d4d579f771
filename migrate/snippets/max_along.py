import jax.numpy as jnp


def max_along(x, index, axis, places):
    """The first maximum of windows along an axis, and what `index` has there.

    `places` has a row for each window: where it looks, with -1 for what lies outside.
    """
    outside = (places < 0).reshape(*places.shape, *[1] * (x.ndim - axis - 1))
    windows = jnp.where(outside, -jnp.inf, jnp.take(x, places, axis))
    best = jnp.argmax(windows, axis + 1, keepdims=True)
    return tuple(
        jnp.take_along_axis(each, best, axis + 1).squeeze(axis + 1) for each in (windows, jnp.take(index, places, axis))
    )
