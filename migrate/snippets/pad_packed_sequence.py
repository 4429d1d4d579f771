import jax.numpy as jnp


def pad_packed_sequence(packed, batch_first=False, padding_value=0.0, total_length=None):
    """The array of a packed sequence, `padding_value` behind the end of each sequence, and the lengths."""
    x, lengths = packed
    if total_length is not None:
        missing = max(total_length - len(x), 0)
        x = jnp.pad(x[:total_length], [(0, missing), *[(0, 0)] * (x.ndim - 1)])
    inside = (jnp.arange(len(x))[:, None] < lengths).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    x = jnp.where(inside, x, jnp.asarray(padding_value, x.dtype))
    return (x.swapaxes(0, 1) if batch_first else x), lengths
