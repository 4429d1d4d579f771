import jax.numpy as jnp


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences of different lengths as one array: each is filled up to the length of the longest."""
    longest = max(len(x) for x in sequences)

    def padded(x):
        missing = longest - len(x)
        ends = (0, missing) if padding_side == "right" else (missing, 0)
        return jnp.pad(x, [ends, *[(0, 0)] * (x.ndim - 1)], constant_values=padding_value)

    return jnp.stack([padded(x) for x in sequences], axis=0 if batch_first else 1)
