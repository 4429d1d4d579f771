from flax.core import freeze


def hashable(settings):
    """Settings as a field of a module that jit hashes: lists are tuples, dicts are frozen."""
    if isinstance(settings, dict):
        return freeze({name: hashable(value) for name, value in settings.items()})
    return tuple(map(hashable, settings)) if isinstance(settings, list) else settings
