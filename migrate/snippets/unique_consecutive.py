import jax.numpy as jnp


def unique_consecutive(x, return_inverse=False, return_counts=False):
    """The values of the runs of equal elements; where asked for, each element's run, and the lengths of the runs."""
    flat = x.ravel()
    begins = jnp.append(True, flat[1:] != flat[:-1])[: flat.size]
    found = [flat[begins]]
    if return_inverse:
        found.append((jnp.cumsum(begins) - 1).reshape(x.shape))
    if return_counts:
        found.append(jnp.diff(jnp.flatnonzero(begins), append=flat.size))
    return tuple(found) if len(found) > 1 else found[0]
