from pathlib import Path

import jax
from flax import serialization

from migrate.snippets.orbax_checkpointer import orbax_checkpointer


def save_with_orbax(content, path):
    """Saves a checkpoint as a folder."""
    arrays = jax.device_get(serialization.to_state_dict(content))
    orbax_checkpointer().save(Path(path).absolute(), arrays, force=True)
