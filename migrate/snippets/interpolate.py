import jax.numpy as jnp
import numpy as np


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=False):
    """Resizes the axes after the first two, as torch does: "nearest" (rounding down), "nearest-exact" or linearly."""
    for axis in range(2, x.ndim):
        old = x.shape[axis]
        factor = scale_factor[axis - 2] if isinstance(scale_factor, tuple | list) else scale_factor
        new = size[axis - 2] if isinstance(size, tuple | list) else size
        new = int(old * factor) if new is None else new
        step = old / new if factor is None else 1 / factor
        if mode.startswith("nearest"):
            place = (np.arange(new) + (0.5 if mode == "nearest-exact" else 0)) * step
            x = jnp.take(x, np.minimum(np.floor(place), old - 1).astype(int), axis)
            continue
        if align_corners:
            place = np.arange(new) * ((old - 1) / max(new - 1, 1))
        else:
            place = np.maximum((np.arange(new) + 0.5) * step - 0.5, 0)
        low = np.minimum(np.floor(place), old - 1).astype(int)
        share = jnp.asarray(place - low, x.dtype).reshape(-1, *[1] * (x.ndim - axis - 1))
        x = jnp.take(x, low, axis) * (1 - share) + jnp.take(x, np.minimum(low + 1, old - 1), axis) * share
    return x
