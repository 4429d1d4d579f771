"""A trainer keeps model, optimizer and schedule on itself: so it keeps their state."""
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
import torch
from torch.utils.data import DataLoader, TensorDataset


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


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    hidden: int = 16
    training: bool = False

    def setup(self):
        self.fc1 = nn.Dense(self.hidden, **torch_init(fan_in=4))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.drop = nn.Dropout(0.1, deterministic=not self.training)
        self.fc2 = nn.Dense(1, **torch_init(fan_in=self.hidden))

    def __call__(self, x):
        return self.fc2(self.drop(jnp.tanh(self.norm(self.fc1(x)))))


@jax.jit(
    static_argnames=("optimizer", "compute_loss"),
    donate_argnames=("params", "batch_stats", "opt_state"),
)
def train_step(optimizer, compute_loss, params, batch_stats, opt_state, x, y, key):
    def loss_fn(params, batch_stats):
        batch_stats, loss = compute_loss(params, batch_stats, x, y, key)
        return loss, batch_stats

    (loss, batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch_stats)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


class Trainer:
    def __init__(self, model, params, batch_stats, lr, device="cpu"):
        self.model = model
        self.params = params
        self.batch_stats = batch_stats
        self.criterion = lambda outputs, targets: jnp.square(outputs - targets).mean()
        self.optimizer = optax.inject_hyperparams(lambda learning_rate: optax.adam(learning_rate))(
            learning_rate=lr
        )
        self.opt_state = self.optimizer.init(self.params)
        self.scheduler = optax.exponential_decay(
            lr, transition_steps=2, decay_rate=0.5, staircase=True
        )
        self.scheduler_steps = 0
        self.history = []

    def compute_loss(self, params, batch_stats, x, y, key):
        output, mutated = self.model.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats},
            x,
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        batch_stats = mutated["batch_stats"]
        return batch_stats, self.criterion(output, y)

    def step(self, x, y, key):
        x, y = jnp.asarray(x), jnp.asarray(y)
        self.params, self.batch_stats, self.opt_state, metrics = train_step(
            self.optimizer,
            self.compute_loss,
            self.params,
            self.batch_stats,
            self.opt_state,
            x,
            y,
            key,
        )
        loss = metrics["loss"]
        return loss.item()

    def train_epoch(self, loader, key):
        total = 0.0
        for x, y in loader:
            key, subkey = jax.random.split(key)
            total += self.step(x, y, subkey)
        self.scheduler_steps += 1
        self.opt_state = optax.tree_utils.tree_set(
            self.opt_state, learning_rate=np.asarray(self.scheduler(self.scheduler_steps))
        )
        self.history.append(total / len(loader))

    def evaluate(self, loader):
        return sum(
            self.criterion(
                eval_step(self.model, self.params, self.batch_stats, jnp.asarray(x)), jnp.asarray(y)
            ).item()
            for x, y in loader
        ) / len(loader)

    def save(self, path):
        Path(path).write_bytes(
            serialization.to_bytes({"params": self.params, "batch_stats": self.batch_stats})
        )


torch.manual_seed(0)
key = jax.random.key(0)
x = torch.randn(64, 4)
y = x.sum(dim=1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = Net()
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
variables = model.init(subkey, jnp.asarray(example[0]))
params, batch_stats = variables["params"], variables["batch_stats"]
trainer = Trainer(model, params, batch_stats, 1e-2)
for epoch in range(3):
    key, subkey = jax.random.split(key)
    trainer.train_epoch(loader, subkey)
    print(epoch, trainer.history[-1], trainer.evaluate(loader))
trainer.save("net.pt")
