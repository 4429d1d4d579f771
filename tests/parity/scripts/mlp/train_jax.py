"""An MLP with dropout on a shuffled loader, at module level."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    hidden: int = 12
    training: bool = False

    def setup(self):
        self.fc1 = nn.Dense(self.hidden)
        self.norm = nn.LayerNorm(epsilon=1e-5, use_fast_variance=False)
        self.drop = nn.Dropout(0.25, deterministic=not self.training)
        self.fc2 = nn.Dense(self.hidden)
        self.fc3 = nn.Dense(3)

    def __call__(self, x):
        x = self.drop(nn.gelu(self.norm(self.fc1(x)), approximate=False))
        x = nn.gelu(self.fc2(x), approximate=False)
        return self.fc3(x)


x = torch.randn(90, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, num_workers=2)

key = jax.random.key(0)
model = Net()
params = model.init(key, jnp.zeros((1, 8)))["params"]
optimizer = optax.adamw(1e-2, weight_decay=0.1)
opt_state = optimizer.init(params)


@jax.jit
def train_step(params, opt_state, inputs, targets, key):
    def loss_fn(params):
        logits = model.clone(training=True).apply({"params": params}, inputs, rngs={"dropout": key})
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()
        return loss, {"loss": loss}

    (_, metrics), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, metrics


for epoch in range(2):
    for inputs, targets in loader:
        inputs, targets = jnp.asarray(inputs.numpy()), jnp.asarray(targets.numpy())
        key, step_key = jax.random.split(key)
        params, opt_state, metrics = train_step(params, opt_state, inputs, targets, step_key)
    print(f"epoch {epoch} loss {float(metrics['loss']):.4f}")
