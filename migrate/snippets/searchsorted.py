from functools import partial

import jax.numpy as jnp


def searchsorted(rows, values, side="left"):
    """Where values go in a sorted vector; of several sorted rows each has a row of values to itself."""
    search = partial(jnp.searchsorted, side=side)
    return search(rows, values) if rows.ndim == 1 else jnp.vectorize(search, signature="(n),(m)->(m)")(rows, values)
