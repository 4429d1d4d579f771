"""Devices chosen on both sides of a branch, empty branches, arrays of a checkpoint that are moved, imports of parts."""

from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
import torch
from torch.utils.data import DataLoader, TensorDataset

best = 0


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, x, y):
    def loss_fn(params):
        loss = ((model.apply({"params": params}, x) - y) ** 2).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


def main(gpu, resume):
    key = jax.random.key(0)
    global best
    # where to run
    device = jax.default_backend()
    print(device)
    if resume:
        checkpoint = serialization.msgpack_restore(Path(resume).read_bytes())
        best = checkpoint["best"]
    model = nn.Dense(2, **torch_init(fan_in=3))
    key, subkey = jax.random.split(key)
    example = DataLoader(
        TensorDataset(torch.from_numpy(np.array(jnp.ones((8, 3)))), torch.from_numpy(np.array(jnp.ones((8, 2))))),
        batch_size=4,
    ).collate_fn(
        [
            DataLoader(
                TensorDataset(
                    torch.from_numpy(np.array(jnp.ones((8, 3)))), torch.from_numpy(np.array(jnp.ones((8, 2))))
                ),
                batch_size=4,
            ).dataset[0]
        ]
    )
    params = model.init(subkey, jnp.asarray(example[0]))["params"]
    optimizer = optax.sgd(0.1)
    opt_state = optimizer.init(params)
    for x, y in DataLoader(TensorDataset(torch.ones(8, 3), torch.ones(8, 2)), batch_size=4):
        x, y = jnp.asarray(x), jnp.asarray(y)
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, x, y)
    Path("last.pt").write_bytes(serialization.to_bytes({"best": best, "model": params}))


main(0, "")
