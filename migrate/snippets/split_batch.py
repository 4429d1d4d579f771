import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def split_batch(batch):
    """Puts a batch on all devices, split along its first axis; one that they cannot share equally is on each whole."""
    batch = np.asarray(batch)
    equal = batch.ndim > 0 and batch.shape[0] % jax.device_count() == 0
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    return jax.device_put(batch, NamedSharding(mesh, PartitionSpec("batch") if equal else PartitionSpec()))
