import jax.numpy as jnp


def concatenate(arrays, axis=0):
    """Arrays end to end; as torch has it, one of shape (0,) may stand beside arrays of more axes."""
    filled = [each for each in arrays if each.shape != (0,)]
    return jnp.concatenate(filled or arrays, axis if filled else 0, dtype=jnp.result_type(*arrays))
