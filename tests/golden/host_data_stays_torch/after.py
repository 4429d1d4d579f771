"""What feeds torch's loader stays torch; what the model sees is jax."""
import numpy as np
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

# model = nn.Linear(3, 2)
raise NotImplementedError("MIG201: nn.Dense(2, **torch_init(fan_in=3)): a layer used as a model; put it in an nn.Sequential")
weights = jnp.ones(2)
for inputs, targets in DataLoader(val_set, batch_size=4):
    print((model(inputs) * weights).sum(), targets.size(0))
