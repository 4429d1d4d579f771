import argparse
import os
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from flax import serialization
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class BatchNorm(nn.Module):
    """Batch normalisation with torch's running statistics: the variance is the unbiased one."""

    use_running_average: bool
    momentum: float = 0.1
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = -1
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        features = x.shape[self.axis]
        axis = self.axis % x.ndim
        others = tuple(i for i in range(x.ndim) if i != axis)
        shape = [features if i == axis else 1 for i in range(x.ndim)]
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, features)
        running_var = self.variable("batch_stats", "var", jnp.ones, features)
        if self.use_running_average:
            mean, var = running_mean.value, running_var.value
        else:
            mean = x.mean(others)
            var = jnp.square(x - mean.reshape(shape)).mean(others)
            if not self.is_initializing():
                n = x.size // features
                m = self.momentum
                running_mean.value = (1 - m) * running_mean.value + m * jax.lax.stop_gradient(mean)
                running_var.value = (1 - m) * running_var.value + m * jax.lax.stop_gradient(var) * n / (n - 1)
        y = (x - mean.reshape(shape)) * jax.lax.rsqrt(var + self.epsilon).reshape(shape)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)).reshape(shape)
            y = y + self.param("bias", self.bias_init, (features,)).reshape(shape)
        return y


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


def join_hosts():
    """Joins the processes of a run, one for each host, where a launcher such as torchrun started several."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))


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
    training: bool = False

    def setup(self):
        self.one = nn.Dense(8, **torch_init(fan_in=4))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.two = nn.Dense(3, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.two(nn.relu(self.norm(self.one(x))))


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    join_hosts()


@jax.jit(
    static_argnames=("model", "optimizer"), donate_argnames=("params", "batch_stats", "opt_state")
)
def train_step(model, optimizer, params, batch_stats, opt_state, x, y):
    def loss_fn(params, batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats}, x, mutable=["batch_stats"]
        )
        batch_stats = mutated["batch_stats"]
        loss = cross_entropy(output, y)
        return loss, batch_stats

    (loss, batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch_stats)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


def train(rank, world_size, args):
    setup(rank, world_size)
    torch.manual_seed(0)
    key = jax.random.key(0)
    inputs = torch.linspace(-1, 1, 24 * 4).reshape(24, 4)
    dataset = TensorDataset(inputs, torch.arange(24) % 3)
    model = Net()
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
    key, subkey = jax.random.split(key)
    example = loader.collate_fn([loader.dataset[0]])
    variables = on_all_devices(model.init(subkey, jnp.asarray(example[0])))
    params, batch_stats = variables["params"], variables["batch_stats"]
    optimizer = optax.sgd(0.1, momentum=0.9)
    opt_state = on_all_devices(optimizer.init(params))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x, y = split_batch(x), split_batch(y)
            params, batch_stats, opt_state, metrics = train_step(
                model, optimizer, params, batch_stats, opt_state, x, y
            )
            loss = metrics["loss"]
        total = jax.lax.stop_gradient(loss)
        if rank == 0:
            print(epoch, total.item() / world_size)
    correct = (
        eval_step(model, params, batch_stats, split_batch(inputs)).argmax(axis=1)
        == jnp.arange(24) % 3
    ).sum()
    if jax.process_index() == 0:
        print(correct.item() / 24)
        if args.save:
            Path(args.save).write_bytes(
                serialization.to_bytes({"params": params, "batch_stats": batch_stats})
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    world_size = jax.local_device_count()
    train(0, 1, args)
