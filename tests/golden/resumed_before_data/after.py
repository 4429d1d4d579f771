"""A model that may resume before its data is at hand, and may be seeded; parts and batches are moved
only where there is a device."""

import argparse
from functools import partial
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from flax import serialization
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def adaptive_avg_pool(x, sizes):
    """Averages channel-last data to `sizes`, with torch's windows, which may overlap; None keeps an axis."""
    for axis, new in enumerate(sizes, 1):
        if new is None:
            continue
        old = x.shape[axis]
        first, last = np.arange(new) * old // new, -(-(np.arange(new) + 1) * old // new)
        inside = (np.arange(old) >= first[:, None]) & (np.arange(old) < last[:, None])
        weights = jnp.asarray(inside / inside.sum(1, keepdims=True), x.dtype)
        x = jnp.moveaxis(jnp.tensordot(weights, x, (1, axis), precision="highest"), 0, axis)
    return x


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


def on_all_devices(tree):
    """Puts a whole copy of each array on every device."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def split_batch(batch):
    """Puts a batch on all devices, split along its first axis; one that they cannot share equally is on each whole."""
    batch = np.asarray(batch)
    equal = batch.ndim > 0 and batch.shape[0] % jax.device_count() == 0
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    return jax.device_put(batch, NamedSharding(mesh, PartitionSpec("batch") if equal else PartitionSpec()))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    channels: int = 3
    classes: int = 10

    def setup(self):
        self.features = nn.Sequential([
            nn.Conv(8, (3, 3), padding="VALID", **torch_init(fan_in=self.channels * 3 * 3)),
            nn.relu,
        ])
        self.pool = partial(adaptive_avg_pool, sizes=(2, 2))
        self.fc = nn.Dense(self.classes, **torch_init(fan_in=8 * 4))

    def __call__(self, x):
        return self._classified(x)

    def _classified(self, x):
        return self.fc(
            jax.lax.collapse(
                self.pool(self.features(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2), 1
            )
        )


parser = argparse.ArgumentParser()
parser.add_argument("--resume")
parser.add_argument("--small", action="store_true")
parser.add_argument("--cuda", action="store_true")
parser.add_argument("--seed", type=int)


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, images, labels):
    def loss_fn(params):
        loss = cross_entropy(model.apply({"params": params}, images), labels)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def main():
    key = jax.random.key(0)
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)
        key = jax.random.key(args.seed)
    if args.small:
        model = Net(classes=2)
        key, subkey = jax.random.split(key)
        params = on_all_devices(model.init(subkey, jnp.zeros((1, 3, 64, 64))))["params"]
    else:
        model = Net()
        key, subkey = jax.random.split(key)
        params = on_all_devices(model.init(subkey, jnp.zeros((1, 3, 64, 64))))["params"]
    optimizer = optax.sgd(0.1)
    opt_state = on_all_devices(optimizer.init(params))
    if args.resume:
        params = serialization.from_bytes(params, Path(args.resume).read_bytes())
    if args.small:
        data = datasets.FakeData(8, (3, 16, 16), 2, transforms.ToTensor())
    else:
        data = datasets.FakeData(64, (3, 32, 32), 10, transforms.ToTensor())
    loader = DataLoader(data, batch_size=4)
    for images, labels in loader:
        images = split_batch(images)
        labels = split_batch(labels)
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, images, labels)
        loss = metrics["loss"]
        print(loss.item(), images.shape[0])


main()
