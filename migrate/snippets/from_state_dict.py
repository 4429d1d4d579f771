import re

import jax.numpy as jnp
from flax.traverse_util import unflatten_dict


def from_state_dict(weights, names):
    """The weights that a dict has under torch's names, in their places here. `names`: where each is, {0} in a list, by
    its number of axes where that decides; those without a place are no weights here."""
    patterns = {re.sub(r"\\{\d\\}", r"(\\d+)", re.escape(name)): place for name, place in names.items()}
    leaves = {}
    for name, value in weights.items():
        found = [(match, place) for pattern, place in patterns.items() if (match := re.fullmatch(pattern, name))]
        if not found:
            raise KeyError(f"{name} is no weight of this model")
        for match, place in ((match, place) for match, place in found if place):
            value = jnp.asarray(value)
            path, axes = place[value.ndim] if isinstance(place, dict) else place
            value = value.astype(jnp.float32) if jnp.issubdtype(value.dtype, jnp.floating) else value
            leaves[path.format(*match.groups())] = jnp.transpose(value, axes) if axes else value
    return unflatten_dict(leaves, sep="/")
