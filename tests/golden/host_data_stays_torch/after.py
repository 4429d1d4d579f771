"""What feeds torch's loader stays torch; what the model sees is jax."""
import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Squares(Dataset):
    def __init__(self, n):
        self.x = torch.arange(n, dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i : i + 1], self.x[i] ** 2


features = torch.from_numpy(np.random.rand(32, 3).astype(np.float32))
labels = torch.zeros(32, dtype=torch.long)
train_set, val_set = random_split(TensorDataset(features, labels), [24, 8])
loader = DataLoader(train_set, batch_size=8, shuffle=True)
batch, _ = next(iter(loader))
print(batch.mean(dim=0).numpy(), len(Squares(3)))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Dense(2, **torch_init(fan_in=3))
weights = jnp.ones(2)
val_loader = DataLoader(val_set, batch_size=4)
key = jax.random.key(0)
key, subkey = jax.random.split(key)
example = val_loader.collate_fn([val_loader.dataset[0]])
params = model.init(subkey, jnp.asarray(example[0]))["params"]


@jax.jit
def eval_step(params, *inputs):
    return model.apply({"params": params}, *inputs)


for inputs, targets in val_loader:
    inputs, targets = jnp.asarray(inputs), jnp.asarray(targets)
    print((eval_step(params, inputs) * weights).sum(), targets.shape[0])
