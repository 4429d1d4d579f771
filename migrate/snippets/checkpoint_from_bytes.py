import pickle

from flax import serialization


def checkpoint_from_bytes(data):
    """What a checkpoint holds: pickled by this script, or as msgpack from `migrate port-weights`."""
    return pickle.loads(data) if data.startswith(pickle.PROTO) else serialization.msgpack_restore(data)
