"""A loss that is computed in train mode and in eval mode, a function that returns what it has trained, a configuration
in a dict, and a model that is made for saved weights."""
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
from flax.core import freeze


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    config: Any
    training: bool = False

    def setup(self):
        self.hidden = nn.Dense(self.config["width"], **torch_init(fan_in=self.config["inputs"]))
        self.drop = nn.Dropout(self.config["dropout"], deterministic=not self.training)
        self.out = nn.Dense(1, **torch_init(fan_in=self.config["width"]))

    def __call__(self, x):
        return self.out(self.drop(jnp.tanh(self.hidden(x))))


def error(x, y, model, params, key, training):
    return jnp.square(model.clone(training=training).apply({"params": params}, x, rngs={"dropout": key}) - y).mean()


def validated(model, params, x, y, key):
    found = error(x, y, model, params, key, training=False).item()
    return found


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, x, y, key):
    def loss_fn(params):
        loss = error(x, y, model, params, key, training=True)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train(config, steps):
    key = jax.random.key(1)
    model = Net(freeze(config))
    key, subkey = jax.random.split(key)
    params = model.init(subkey, jnp.linspace(-1, 1, 24).reshape(8, 3))["params"]
    optimizer = optax.adam(config["rate"])
    opt_state = optimizer.init(params)
    x = jnp.linspace(-1, 1, 24).reshape(8, 3)
    y = x.sum(axis=1, keepdims=True)
    found = []
    for step in range(steps):
        key, subkey = jax.random.split(key)
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, x, y, subkey)
        key, subkey = jax.random.split(key)
        found.append(validated(model, params, x, y, subkey))
    return params, (found, model)


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


key = jax.random.key(0)
if __name__ == "__main__":
    config = {"inputs": 3, "width": 8, "dropout": 0.1, "rate": 1e-2}
    params, (found, model) = train(config, 10)
    print(found)
    Path("net.pt").write_bytes(serialization.to_bytes(params))
    model = Net(freeze(config))
    key, subkey = jax.random.split(key)
    params = model.init(subkey, jnp.ones((1, 3)))["params"]
    params = serialization.from_bytes(params, Path("net.pt").read_bytes())
    print(eval_step(model, params, jnp.ones((1, 3))))
