import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict

from migrate.snippets.torch_names import torch_names


def state_dict(params, names):
    """The weights under the names that they have in torch, with torch's axes. `names`: where each is, {0} in a list."""
    leaves = flatten_dict(params, sep="/")
    return {
        name: jnp.transpose(leaves[path], np.argsort(axes)) if axes else leaves[path]
        for name, path, axes in torch_names(leaves, names)
    }
