import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict

from migrate.snippets.constants import constants
from migrate.snippets.torch_names import torch_names


def state_dict(params, names, model=None):
    """The weights under the names that they have in torch, with torch's axes. `names`: where each is, {0} in a list;
    those without a place are constants of `model`."""
    leaves = flatten_dict(params, sep="/") | (constants(model, params, names) if model is not None else {})
    return {
        name: jnp.transpose(leaves[path], np.argsort(axes)) if axes else leaves[path]
        for name, path, axes in torch_names(leaves, names)
    }
