"""Lambdas that have names, functions inside methods, and functions of a class without an object."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset


def standard_deviation(x, **options):
    """`x.std(**options)`, whose gradient where all are equal is 0, as in torch; else it is NaN."""
    var = x.var(**options)
    return jnp.where(var == 0, 0, jnp.sqrt(jnp.where(var == 0, 1, var)))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Scaled(nn.Module):
    def setup(self):
        self.hidden = nn.Dense(8, **torch_init(fan_in=4))
        self.out = nn.Dense(3, **torch_init(fan_in=8))

    def __call__(self, x):
        scale = lambda t: t / (1 + standard_deviation(t, axis=1, keepdims=True, ddof=1))
        return self.out(scale(self.hidden(x)))


@jax.jit(static_argnames=("optimizer", "loss_of"), donate_argnames=("params", "opt_state"))
def train_step(optimizer, loss_of, params, opt_state, x):
    def loss_fn(params):
        loss = loss_of(params, x)
        return loss.squeeze()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


class Trainer:
    def __init__(self, model, params, optimizer, opt_state):
        self.model = model
        self.params = params
        self.optimizer = optimizer
        self.opt_state = opt_state
        self.seen = 0

    def step(self, x, y):
        weigh = lambda t, s: t / standard_deviation(s, ddof=1)

        def loss_of(params, x):
            return weigh(
                ((self.model.apply({"params": params}, x) - y.reshape(-1, 3)) ** 2).sum() / y.size, y
            ) + self.spread(x)

        def count(n):
            self.seen += n

        self.params, self.opt_state, metrics = train_step(
            self.optimizer, loss_of, self.params, self.opt_state, x
        )
        loss = metrics["loss"]
        count(x.shape[0])
        return loss.item()

    @staticmethod
    def spread(t):
        return t.var(ddof=1)

    def noisy(self, x, key):
        noise = lambda n, key, size=0.1: size * jax.random.normal(key, (n, 4))
        return eval_step(self.model, self.params, x + noise(x.shape[0], key))


torch.manual_seed(0)
key = jax.random.key(0)
collate = lambda rows: (torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows]))
data = TensorDataset(torch.randn(40, 4), torch.randn(40, 3))
loader = DataLoader(data, batch_size=8, collate_fn=collate)
model = Scaled()
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
params = model.init(subkey, jnp.asarray(example[0]))["params"]
optimizer = optax.inject_hyperparams(lambda learning_rate: optax.sgd(learning_rate))(learning_rate=0.1)
opt_state = optimizer.init(params)
# warms up
warm = lambda epoch: min(1.0, (epoch + 1) / 3)
schedule = lambda epoch: 0.1 * warm(epoch)
schedule_steps = 0
opt_state = optax.tree_utils.tree_set(opt_state, learning_rate=np.asarray(schedule(0)))


@jax.jit
def eval_step_2(params, *inputs):
    return model.apply({"params": params}, *inputs)


net = lambda params, t: eval_step_2(params, t)
largest = lambda t: t.max(axis=1)
spreads = lambda a, b: (a.std(ddof=1), b.size)
trainer = Trainer(model, params, optimizer, opt_state)
for epoch in range(2):
    for x, y in loader:
        x, y = jnp.asarray(x), jnp.asarray(y)
        loss = trainer.step(x, y)
        print(
            loss, trainer.seen, largest(net(trainer.params, x)).shape, spreads(x, y), Trainer.spread(y)
        )
    schedule_steps += 1
    trainer.opt_state = optax.tree_utils.tree_set(
        trainer.opt_state, learning_rate=np.asarray(schedule(schedule_steps))
    )
key, subkey = jax.random.split(key)
print(trainer.noisy(jnp.ones((2, 4)).astype(jnp.float32), subkey).shape)
