"""Objects that have a model which others train: averages of its weights, evaluation, checkpoints."""
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
from flax.traverse_util import flatten_dict
from flax.traverse_util import unflatten_dict
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
    training: bool = False

    def setup(self):
        self.hidden = nn.Dense(8, **torch_init(fan_in=3))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.head = nn.Dense(1, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.head(jnp.tanh(self.norm(self.hidden(x))))


class EMA:
    def __init__(self, model, decay):
        self.model = model
        self.decay = decay
        self.shadow = {}
        self.backup = {}

    def register(self, params):
        for name, param in flatten_dict(params, sep=".").items():
            self.shadow[name] = jnp.copy(param)

    def update(self, params):
        for name, param in flatten_dict(params, sep=".").items():
            new_average = (1.0 - self.decay) * param + self.decay * self.shadow[name]
            self.shadow[name] = jnp.copy(new_average)

    def apply_shadow(self, params):
        weights = flatten_dict(params, sep=".")
        for name, param in weights.items():
            self.backup[name] = param
            weights[name] = self.shadow[name]
        params = unflatten_dict(weights, sep=".")
        return params

    def restore(self, params):
        weights = flatten_dict(params, sep=".")
        for name in weights:
            weights[name] = self.backup[name]
        params = unflatten_dict(weights, sep=".")
        self.backup = {}
        return params


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


class Evaluator:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader

    def evaluate(self, params, batch_stats):
        return sum(
            jnp.square(eval_step(self.model, params, batch_stats, jnp.asarray(x)) - jnp.asarray(y))
            .mean()
            .item()
            for x, y in self.loader
        )


class Keeper:
    def __init__(self, model, optimizer, path):
        self.model = model
        self.path = path
        self.optimizer = optimizer
        self.best = float("inf")

    def keep(self, params, batch_stats, opt_state, loss):
        if loss < self.best:
            self.best = loss
            Path(self.path).write_bytes(
                serialization.to_bytes(
                    {"model": {"params": params, "batch_stats": batch_stats}, "optimizer": opt_state}
                )
            )

    def load(self, params, batch_stats, opt_state):
        kept = serialization.msgpack_restore(Path(self.path).read_bytes())
        variables = serialization.from_state_dict(
            {"params": params, "batch_stats": batch_stats}, kept["model"]
        )
        params, batch_stats = variables["params"], variables["batch_stats"]
        opt_state = serialization.from_state_dict(opt_state, kept["optimizer"])
        return params, batch_stats, opt_state


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "batch_stats", "opt_state"))
def train_step(model, optimizer, params, batch_stats, opt_state, x, y):
    def loss_fn(params, batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats}, x, mutable=["batch_stats"]
        )
        batch_stats = mutated["batch_stats"]
        loss = jnp.square(output - y).mean()
        return loss, batch_stats

    (loss, batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch_stats)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, {"loss": loss}


def train(model, params, batch_stats, optimizer, opt_state, loader, ema=None):
    for x, y in loader:
        x, y = jnp.asarray(x), jnp.asarray(y)
        params, batch_stats, opt_state, metrics = train_step(
            model, optimizer, params, batch_stats, opt_state, x, y
        )
        if ema is not None:
            ema.update(params)
    return params, batch_stats, opt_state


def main():
    key = jax.random.key(0)
    loader = DataLoader(TensorDataset(torch.randn(32, 3), torch.randn(32, 1)), batch_size=8)
    model = Net()
    key, subkey = jax.random.split(key)
    example = loader.collate_fn([loader.dataset[0]])
    variables = model.init(subkey, jnp.asarray(example[0]))
    params, batch_stats = variables["params"], variables["batch_stats"]
    optimizer = optax.adam(0.01)
    opt_state = optimizer.init(params)
    ema = EMA(model, 0.9)
    ema.register(params)
    evaluator = Evaluator(model, loader)
    keeper = Keeper(model, optimizer, "best.pt")
    for epoch in range(3):
        params, batch_stats, opt_state = train(
            model, params, batch_stats, optimizer, opt_state, loader, ema if epoch else None
        )
        params = ema.apply_shadow(params)
        loss = evaluator.evaluate(params, batch_stats)
        params = ema.restore(params)
        keeper.keep(params, batch_stats, opt_state, loss)
        print(epoch, loss)
    params, batch_stats, opt_state = keeper.load(params, batch_stats, opt_state)
    print(eval_step(model, params, batch_stats, jnp.ones((2, 3))).sum().item())


main()
