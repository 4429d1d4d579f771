import jax.numpy as jnp


def scatter(x, axis, index, src, mode="set"):
    """Writes src to the places of `index` along an axis, as torch does: element i, j, … of the index is for row i, …"""
    rows = jnp.indices(index.shape, sparse=True)
    places = tuple(index if i == axis % x.ndim else row for i, row in enumerate(rows))
    if jnp.ndim(src):
        src = src[tuple(slice(n) for n in index.shape)]
    return getattr(x.at[places], mode)(src)
