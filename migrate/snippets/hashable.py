import numpy as np
from flax.core import freeze


def hashable(settings):
    """Settings as a field of a module that jit hashes: lists and arrays are tuples, dicts are frozen."""
    if isinstance(settings, dict):
        return freeze({name: hashable(value) for name, value in settings.items()})
    if isinstance(settings, np.ndarray):
        settings = settings.tolist()
    return tuple(map(hashable, settings)) if isinstance(settings, list) else settings
