"""Recurrent cells stepped by hand: over the parts of a sequence, over tensors, for a number of turns. What draws, or whose
state may change its shape, stays a loop."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class GRUCell(nn.Module):
    """One step of torch's GRU: returns h. Weights transposed, gates in the order r, z, n, two biases."""

    hidden_size: int
    bias: bool = True
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        def weight(name, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(name, (self.initializers or {}).get(name, usual), shape)

        h = jnp.zeros((*x.shape[:-1], self.hidden_size), x.dtype) if hx is None else hx
        width = 3 * self.hidden_size
        inputs = x @ weight("weight_ih", x.shape[-1], width)
        hidden = h @ weight("weight_hh", self.hidden_size, width)
        if self.bias:
            inputs, hidden = inputs + weight("bias_ih", width), hidden + weight("bias_hh", width)
        r, z, n = jnp.split(inputs, 3, axis=-1)
        hr, hz, hn = jnp.split(hidden, 3, axis=-1)
        z = nn.sigmoid(z + hz)
        n = jnp.tanh(n + nn.sigmoid(r + hr) * hn)
        return (1 - z) * n + z * h


class LSTMCell(nn.Module):
    """One step of torch's LSTM: returns (h, c). Weights transposed, gates in the order i, f, g, o, two biases."""

    hidden_size: int
    bias: bool = True
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        def weight(name, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(name, (self.initializers or {}).get(name, usual), shape)

        h, c = (jnp.zeros((*x.shape[:-1], self.hidden_size), x.dtype),) * 2 if hx is None else hx
        width = 4 * self.hidden_size
        gates = x @ weight("weight_ih", x.shape[-1], width) + h @ weight("weight_hh", self.hidden_size, width)
        if self.bias:
            gates = gates + weight("bias_ih", width) + weight("bias_hh", width)
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return nn.sigmoid(o) * jnp.tanh(c), c


class RNNCell(nn.Module):
    """One step of torch's RNN: returns h. Weights transposed, two biases."""

    hidden_size: int
    bias: bool = True
    nonlinearity: str = "tanh"
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        def weight(name, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(name, (self.initializers or {}).get(name, usual), shape)

        h = jnp.zeros((*x.shape[:-1], self.hidden_size), x.dtype) if hx is None else hx
        y = x @ weight("weight_ih", x.shape[-1], self.hidden_size)
        y = y + h @ weight("weight_hh", self.hidden_size, self.hidden_size)
        if self.bias:
            y = y + weight("bias_ih", self.hidden_size) + weight("bias_hh", self.hidden_size)
        return {"tanh": jnp.tanh, "relu": nn.relu}[self.nonlinearity](y)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Stepped(nn.Module):
    training: bool = False

    def setup(self):
        self.lower = LSTMCell(4)
        self.upper = LSTMCell(5)
        self.cell = GRUCell(5)
        self.dropout = nn.Dropout(0.5, deterministic=not self.training)
        self.project = nn.Dense(5, **torch_init(fan_in=5))
        self.head = nn.Dense(1, **torch_init(fan_in=5))

    def __call__(self, series, ahead=2):
        outputs = []
        h, c = jnp.zeros((series.shape[0], 4)), jnp.zeros((series.shape[0], 4))
        state = (jnp.zeros((series.shape[0], 5)), jnp.zeros((series.shape[0], 5)))

        # one value after another
        @partial(nn.scan, variable_broadcast="params", split_rngs={"params": False}, in_axes=1)
        def step(self, carry, value):
            h, c, state = carry
            h, c = self.lower(value, (h, c))
            state = self.upper(h, state)
            output = self.head(state[0])
            return (h, c, state), output

        (h, c, state), steps = step(self, (h, c, state), jnp.expand_dims(series, 2))
        output = steps[-1]
        outputs.extend(steps)
        for _ in range(ahead):
            h, c = self.lower(output, (h, c))
            state = self.upper(h, state)
            output = self.head(state[0])
            outputs += [output]

        hidden, context = state
        seen = []

        @partial(nn.scan, variable_broadcast="params", split_rngs={"params": False})
        def step(self, hidden, row):
            hidden = self.cell(row, hidden)
            return hidden, hidden

        hidden, steps = step(self, hidden, jnp.stack([hidden, context]))
        seen.extend(steps)

        @partial(nn.scan, variable_broadcast="params", split_rngs={"params": False}, length=3)
        def step(self, hidden, _):
            hidden = self.cell(hidden, hidden)
            return hidden, None

        hidden, _ = step(self, hidden, None)
        # what the cell has seen

        @partial(nn.scan, variable_broadcast="params", split_rngs={"params": False})
        def step(self, hidden, row):
            hidden = self.cell(row, hidden)
            return hidden, hidden

        hidden, trace = step(self, hidden, jnp.expand_dims(hidden, 0))
        trace = jnp.concatenate(trace, axis=1)
        for row in tuple(jnp.moveaxis(jnp.stack(seen, axis=1), 1, 0)):
            hidden = self.cell(self.dropout(row), hidden)
        for row in seen:
            hidden = jnp.tanh(self.project(row) + hidden)
        return jnp.concatenate(outputs, axis=1), hidden + trace.mean()


class Following(nn.Module):
    """A buffer that changes is none of the weights."""

    def setup(self):
        self.cell = RNNCell(2)
        self.mean = self.variable("batch_stats", "mean", lambda: jnp.zeros(2))

    def __call__(self, x):
        for row in tuple(x):
            x = self.cell(row, x[0])
            if not self.is_initializing():
                self.mean.value = 0.9 * self.mean.value + 0.1 * jax.lax.stop_gradient(x).mean(axis=0)
        h = jnp.zeros((3, 2))
        for _ in range(2):
            h = self.cell(h, h)
        return h + self.mean.value


model = Stepped()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((4, 6)))["params"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, series, key):
    def loss_fn(params):
        predicted, hidden = model.clone(training=True).apply({"params": params}, series, rngs={"dropout": key})
        loss = ((predicted[:, :6] - series) ** 2).mean() + (hidden ** 2).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for step in range(3):
    key, subkey = jax.random.split(key)
    series = jax.random.normal(subkey, (4, 6))
    key, subkey = jax.random.split(key)
    params, opt_state, metrics = train_step(params, opt_state, series, subkey)
    loss = metrics["loss"]
    print(loss.item())
