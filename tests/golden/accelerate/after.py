from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
import torch
from torch.utils.data import DataLoader, TensorDataset


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    def setup(self):
        self.fc = nn.Dense(1, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.fc(x)


@jax.jit(
    static_argnames=("model", "optimizer", "criterion"), donate_argnames=("params", "opt_state")
)
def train_step(model, optimizer, criterion, params, opt_state, x, y):
    def loss_fn(params):
        loss = criterion(model.apply({"params": params}, x), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads, _ = clip_grad_norm(grads, 1.0)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def main():
    torch.manual_seed(0)
    key = jax.random.key(0)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=16)
    model = Net()
    key, subkey = jax.random.split(key)
    example = loader.collate_fn([loader.dataset[0]])
    params = model.init(subkey, jnp.asarray(example[0]))["params"]
    optimizer = optax.adam(1e-2)
    opt_state = optimizer.init(params)
    criterion = lambda outputs, targets: jnp.square(outputs - targets).mean()
    for epoch in range(2):
        for x, y in loader:
            x, y = jnp.asarray(x), jnp.asarray(y)
            params, opt_state, metrics = train_step(
                model, optimizer, criterion, params, opt_state, x, y
            )
            loss = metrics["loss"]
        print(f"{epoch}: {loss.item():.4f}")
    if jax.process_index() == 0:
        Path("net.pt").write_bytes(serialization.to_bytes(params))


main()
