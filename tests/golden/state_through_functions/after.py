"""The common shape: train() and test() called from main(), with a schedule and a device."""
import argparse
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
import torch
from torch.utils.data import DataLoader, TensorDataset


def cross_entropy(logits, labels, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Softmax cross entropy as torch has it: classes on axis 1, labels of `ignore_index` left out."""
    axis = min(1, logits.ndim - 1)
    log_probs = jax.nn.log_softmax(logits, axis)
    if labels.shape == logits.shape:  # probabilities
        losses = -(labels * log_probs).sum(axis)
        kept = jnp.ones_like(losses, bool)
    else:
        kept = labels != ignore_index
        index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
        losses = -jnp.take_along_axis(log_probs, index, axis).squeeze(axis)
    if label_smoothing:  # not 0 times the mean, which may be infinite
        losses = (1 - label_smoothing) * losses - label_smoothing * log_probs.mean(axis)
    losses = jnp.where(kept, losses, 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    hidden: int
    training: bool = False

    def setup(self):
        self.fc1 = nn.Dense(self.hidden, **torch_init(fan_in=4))
        self.dropout = nn.Dropout(0.1, deterministic=not self.training)
        self.fc2 = nn.Dense(3, **torch_init(fan_in=self.hidden))

    def __call__(self, x):
        return self.fc2(self.dropout(nn.relu(self.fc1(x))))


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, data, target, key):
    def loss_fn(params):
        # forward
        output = model.clone(training=True).apply({"params": params}, data, rngs={"dropout": key})
        loss = cross_entropy(output, target)
        return loss, output

    # backward
    (loss, output), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "output": output}


def train(model, params, loader, optimizer, opt_state, epoch, key, log_interval=10):
    total = 0.0
    for batch, (data, target) in enumerate(loader):
        data, target = jnp.asarray(data), jnp.asarray(target)
        key, subkey = jax.random.split(key)
        params, opt_state, metrics = train_step(
            model, optimizer, params, opt_state, data, target, subkey
        )
        loss = metrics["loss"]
        output = metrics["output"]
        total += loss.item()
        if batch % log_interval == 0:
            print(
                epoch, batch, loss.item(), output.argmax(axis=1).astype(jnp.float32).mean().item()
            )
    return params, opt_state, total / len(loader)


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def test(model, params, loader):
    correct = 0
    for data, target in loader:
        data, target = jnp.asarray(data), jnp.asarray(target)
        correct += (eval_step(model, params, data).argmax(axis=1) == target).sum().item()
    return correct


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    key = jax.random.key(0)
    x, y = torch.randn(64, 4), torch.randint(0, 3, (64,))
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = Net(8)
    key, subkey = jax.random.split(key)
    example = loader.collate_fn([loader.dataset[0]])
    params = model.init(subkey, jnp.asarray(example[0]))["params"]
    optimizer = optax.inject_hyperparams(
        lambda learning_rate: optax.chain(
            optax.add_decayed_weights(1e-4), optax.sgd(learning_rate, momentum=0.9)
        )
    )(learning_rate=0.1)
    opt_state = optimizer.init(params)
    scheduler = optax.exponential_decay(0.1, transition_steps=1, decay_rate=0.5, staircase=True)
    scheduler_steps = 0
    for epoch in range(args.epochs):
        key, subkey = jax.random.split(key)
        params, opt_state, loss = train(model, params, loader, optimizer, opt_state, epoch, subkey)
        scheduler_steps += 1
        opt_state = optax.tree_utils.tree_set(
            opt_state, learning_rate=np.asarray(scheduler(scheduler_steps))
        )
        print(loss, test(model, params, loader), [float(scheduler(scheduler_steps))])
    Path("net.pt").write_bytes(serialization.to_bytes(params))


if __name__ == "__main__":
    main()
