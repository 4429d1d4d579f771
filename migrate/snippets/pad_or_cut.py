from __future__ import annotations

import jax
import jax.numpy as jnp


def pad_or_cut(x, widths, value=0):
    """Pads by torch's widths, pairs from the last axis backwards; a negative one cuts."""
    pairs = [(int(before), int(after), 0) for before, after in zip(widths[::2], widths[1::2], strict=True)]
    return jax.lax.pad(x, jnp.asarray(value, x.dtype), [(0, 0, 0)] * (x.ndim - len(pairs)) + pairs[::-1])
