import jax.numpy as jnp
import numpy as np


def array_or_zeros(x, dtype):
    """What `FloatTensor(x)` and its like are in torch: the values of x; where x is a whole number, so many zeros."""
    return jnp.zeros(x, dtype) if isinstance(x, int | np.integer) else jnp.asarray(x, dtype)
