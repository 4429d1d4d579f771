import jax.numpy as jnp


def scatter_reduce(x, axis, index, src, reduce, include_self=True):
    """Reduces what `src` has for each place of x that the index names, with what is there already or without."""
    rows = jnp.indices(index.shape, sparse=True)
    places = tuple(index if i == axis % x.ndim else row for i, row in enumerate(rows))
    src = src[tuple(slice(n) for n in index.shape)]
    if not include_self:
        lowest, highest = (False, True) if x.dtype == bool else (-jnp.inf, jnp.inf)
        if jnp.issubdtype(x.dtype, jnp.integer):
            lowest, highest = jnp.iinfo(x.dtype).min, jnp.iinfo(x.dtype).max
        x = x.at[places].set({"sum": 0, "mean": 0, "prod": 1, "amax": lowest, "amin": highest}[reduce])
    mode = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "max", "amin": "min"}[reduce]
    reduced = getattr(x.at[places], mode)(src)
    if reduce != "mean":
        return reduced
    counts = jnp.full_like(x, int(include_self)).at[places].add(1)
    divide = jnp.floor_divide if jnp.issubdtype(x.dtype, jnp.integer) else jnp.divide
    return divide(reduced, jnp.maximum(counts, 1))
