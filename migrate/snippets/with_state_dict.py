import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict

from migrate.snippets.constants import constants
from migrate.snippets.torch_names import torch_names


def with_state_dict(params, weights, names, model=None):
    """`params` with the weights that a dict has under torch's names, which must be all of them."""
    before = flatten_dict(params, sep="/") | (constants(model, params, names) if model is not None else {})
    leaves, known = flatten_dict(params, sep="/"), torch_names(before, names)
    if weights.keys() != {name for name, *_ in known}:
        raise KeyError(f"not the names of these weights: {sorted(weights.keys() ^ {name for name, *_ in known})}")
    for name, path, axes in known:
        value = jnp.asarray(weights[name], before[path].dtype)
        value = jnp.transpose(value, axes) if axes else value
        if value.shape != before[path].shape:
            raise ValueError(f"{name} has the shape {value.shape} where {before[path].shape} is wanted")
        if jnp.array_equal(value, before[path]):  # tied weights have several names: one that changes is enough
            continue
        if path not in leaves:
            raise ValueError(f"{name} is a constant of the model")
        if leaves[path] is not before[path] and not jnp.array_equal(value, leaves[path]):
            raise ValueError(f"{name} is one weight with another, which is something else")
        leaves[path] = value
    return unflatten_dict(leaves, sep="/")
