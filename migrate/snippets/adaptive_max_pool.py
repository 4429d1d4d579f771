import jax.numpy as jnp
import numpy as np

from migrate.snippets.max_along import max_along


def adaptive_max_pool(x, sizes, return_indices=False):
    """The largest values of channel-first data in torch's windows, which may overlap; None keeps an axis."""
    first = x.ndim - len(sizes)
    index = jnp.broadcast_to(jnp.arange(np.prod(x.shape[first:])).reshape(x.shape[first:]), x.shape)
    for axis, new in enumerate(sizes, first):
        old = x.shape[axis]
        new = old if new is None else new
        begin, end = np.arange(new) * old // new, -(-(np.arange(new) + 1) * old // new)
        places = begin[:, None] + np.arange((end - begin).max())
        x, index = max_along(x, index, axis, np.where(places < end[:, None], places, -1))
    return (x, index) if return_indices else x
