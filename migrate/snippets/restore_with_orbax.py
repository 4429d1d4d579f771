from pathlib import Path

from flax import serialization

from migrate.snippets.orbax_checkpointer import orbax_checkpointer


def restore_with_orbax(path):
    """What a checkpoint holds: a folder of Orbax's, or a file of msgpack from `migrate port-weights`."""
    path = Path(path)
    if path.is_file():
        return serialization.msgpack_restore(path.read_bytes())
    return orbax_checkpointer().restore(path.absolute())
