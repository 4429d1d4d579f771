"""A recurrent language model trained by hand: the layer chosen by its name, initial weights from a variable of a method, a
first state of the type of the weights, the state detached between chunks, the whole model saved in an open file."""

import argparse
import math
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization


class Texts:
    def __init__(self, lines):
        self.words = sorted({word for line in lines for word in line.split()})
        self.train = self.read(lines)

    def read(self, lines):
        rows = []
        for line in lines:
            rows.append(jnp.array([self.words.index(word) for word in line.split()]).astype(jnp.int32))
        return jnp.concatenate(rows)


class GRU(nn.Module):
    """torch's GRU, by scans over time: returns (output, h), where h has a row for each layer and direction.

    The weights are torch's, transposed: gates side by side in the order r, z, n, and two biases that both learn.
    """

    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    training: bool = False
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        x, lengths = x if isinstance(x, tuple) else (x, None)  # a packed sequence has its time first
        time_axis = 1 if self.batch_first and x.ndim == 3 and lengths is None else 0
        x = jnp.moveaxis(x, time_axis, 0)
        inside = None if lengths is None else (jnp.arange(len(x))[:, None] < lengths)[..., None]
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        if hx is None:
            hx = jnp.zeros((self.num_layers * len(suffixes), *x.shape[1:-1], self.hidden_size), x.dtype)
        finals = []
        for layer in range(self.num_layers):
            if layer:
                x = nn.Dropout(self.dropout, deterministic=not self.training)(x)
            outputs = []
            for suffix in suffixes:
                final, y = self.scan(f"l{layer}{suffix}", x, hx[len(finals)], inside, reverse=suffix == "_reverse")
                finals.append(final)
                outputs.append(y)
            x = jnp.concatenate(outputs, axis=-1)
        x = jnp.moveaxis(x, 0, time_axis)
        return (x if lengths is None else (x, lengths)), jnp.stack(finals)

    def scan(self, name, x, h, inside, reverse):
        def weight(kind, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(f"{kind}_{name}", (self.initializers or {}).get(kind, usual), shape)

        gates = 3 * self.hidden_size
        rows = x.reshape(-1, x.shape[-1])  # one product of two matrices is XLA's fastest
        inputs = (rows @ weight("weight_ih", x.shape[-1], gates)).reshape(*x.shape[:-1], gates)
        weight_hh = weight("weight_hh", self.hidden_size, gates)
        if self.bias:
            inputs = inputs + weight("bias_ih", gates)
        bias_hh = weight("bias_hh", gates) if self.bias else 0

        def step(h, now):
            inputs, inside = now
            r, z, n = jnp.split(inputs, 3, axis=-1)
            hr, hz, hn = jnp.split(h @ weight_hh + bias_hh, 3, axis=-1)
            z = nn.sigmoid(z + hz)
            n = jnp.tanh(n + nn.sigmoid(r + hr) * hn)
            new = (1 - z) * n + z * h
            h = new if inside is None else jnp.where(inside, new, h)  # what has ended keeps its state
            return h, h

        return jax.lax.scan(step, h, (inputs, inside), reverse=reverse)


class LSTM(nn.Module):
    """torch's LSTM, by scans over time: returns (output, (h, c)), h and c with a row for each layer and direction.

    The weights are torch's, transposed: gates side by side in the order i, f, g, o, and two biases that both learn.
    """

    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    proj_size: int = 0
    training: bool = False
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        x, lengths = x if isinstance(x, tuple) else (x, None)  # a packed sequence has its time first
        time_axis = 1 if self.batch_first and x.ndim == 3 and lengths is None else 0
        x = jnp.moveaxis(x, time_axis, 0)
        inside = None if lengths is None else (jnp.arange(len(x))[:, None] < lengths)[..., None]
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        if hx is None:
            shape = (self.num_layers * len(suffixes), *x.shape[1:-1])
            h = jnp.zeros((*shape, self.proj_size or self.hidden_size), x.dtype)
            hx = (h, jnp.zeros((*shape, self.hidden_size), x.dtype))
        finals = []
        for layer in range(self.num_layers):
            if layer:
                x = nn.Dropout(self.dropout, deterministic=not self.training)(x)
            outputs = []
            for suffix in suffixes:
                state = (hx[0][len(finals)], hx[1][len(finals)])
                final, y = self.scan(f"l{layer}{suffix}", x, state, inside, reverse=suffix == "_reverse")
                finals.append(final)
                outputs.append(y)
            x = jnp.concatenate(outputs, axis=-1)
        h, c = (jnp.stack(rows) for rows in zip(*finals, strict=True))
        x = jnp.moveaxis(x, 0, time_axis)
        return (x if lengths is None else (x, lengths)), (h, c)

    def scan(self, name, x, state, inside, reverse):
        def weight(kind, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(f"{kind}_{name}", (self.initializers or {}).get(kind, usual), shape)

        gates = 4 * self.hidden_size
        rows = x.reshape(-1, x.shape[-1])  # one product of two matrices is XLA's fastest
        inputs = (rows @ weight("weight_ih", x.shape[-1], gates)).reshape(*x.shape[:-1], gates)
        weight_hh = weight("weight_hh", self.proj_size or self.hidden_size, gates)
        if self.bias:
            inputs = inputs + (weight("bias_ih", gates) + weight("bias_hh", gates))
        weight_hr = weight("weight_hr", self.hidden_size, self.proj_size) if self.proj_size else None

        def step(state, now):
            inputs, inside = now
            h, c = state
            i, f, g, o = jnp.split(inputs + h @ weight_hh, 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            h = h if weight_hr is None else h @ weight_hr
            if inside is not None:  # what has ended keeps its state
                h, c = jnp.where(inside, h, state[0]), jnp.where(inside, c, state[1])
            return (h, c), h

        return jax.lax.scan(step, state, (inputs, inside), reverse=reverse)


class RNN(nn.Module):
    """torch's RNN, by scans over time: returns (output, h), where h has a row for each layer and direction.

    The weights are torch's, transposed, with two biases that both learn.
    """

    hidden_size: int
    num_layers: int = 1
    nonlinearity: str = "tanh"
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    training: bool = False
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        x, lengths = x if isinstance(x, tuple) else (x, None)  # a packed sequence has its time first
        time_axis = 1 if self.batch_first and x.ndim == 3 and lengths is None else 0
        x = jnp.moveaxis(x, time_axis, 0)
        inside = None if lengths is None else (jnp.arange(len(x))[:, None] < lengths)[..., None]
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        if hx is None:
            hx = jnp.zeros((self.num_layers * len(suffixes), *x.shape[1:-1], self.hidden_size), x.dtype)
        finals = []
        for layer in range(self.num_layers):
            if layer:
                x = nn.Dropout(self.dropout, deterministic=not self.training)(x)
            outputs = []
            for suffix in suffixes:
                final, y = self.scan(f"l{layer}{suffix}", x, hx[len(finals)], inside, reverse=suffix == "_reverse")
                finals.append(final)
                outputs.append(y)
            x = jnp.concatenate(outputs, axis=-1)
        x = jnp.moveaxis(x, 0, time_axis)
        return (x if lengths is None else (x, lengths)), jnp.stack(finals)

    def scan(self, name, x, h, inside, reverse):
        def weight(kind, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(f"{kind}_{name}", (self.initializers or {}).get(kind, usual), shape)

        rows = x.reshape(-1, x.shape[-1])  # one product of two matrices is XLA's fastest
        inputs = (rows @ weight("weight_ih", x.shape[-1], self.hidden_size)).reshape(*x.shape[:-1], self.hidden_size)
        weight_hh = weight("weight_hh", self.hidden_size, self.hidden_size)
        if self.bias:
            inputs = inputs + (weight("bias_ih", self.hidden_size) + weight("bias_hh", self.hidden_size))
        activation = {"tanh": jnp.tanh, "relu": nn.relu}[self.nonlinearity]

        def step(h, now):
            inputs, inside = now
            new = activation(inputs + h @ weight_hh)
            h = new if inside is None else jnp.where(inside, new, h)  # what has ended keeps its state
            return h, h

        return jax.lax.scan(step, h, (inputs, inside), reverse=reverse)


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


def nll_loss(log_probs, labels, ignore_index=-100, reduction="mean"):
    """Negative log-likelihood of integer labels as torch has it: classes on axis 1, `ignore_index` left out."""
    axis = min(1, log_probs.ndim - 1)
    kept = labels != ignore_index
    index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
    losses = jnp.where(kept, -jnp.take_along_axis(log_probs, index, axis).squeeze(axis), 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def uniform_between(low, high):
    """Initial values drawn evenly from low to high; `nn.initializers.uniform` starts at 0."""
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, low, high)


def make_lstm(input_size, hidden_size, num_layers=1, dropout=0.0, training=False):
    return LSTM(hidden_size, num_layers=num_layers, dropout=dropout, training=training)


def make_gru(input_size, hidden_size, num_layers=1, dropout=0.0, training=False):
    return GRU(hidden_size, num_layers=num_layers, dropout=dropout, training=training)


class Recurrent(nn.Module):
    kind: Any
    words: int
    width: int
    hidden: int
    layers: int
    dropout: float = 0.5
    training: bool = False

    def setup(self):
        self.drop = nn.Dropout(self.dropout, deterministic=not self.training)
        self.encoder = nn.Embed(self.words, self.width, embedding_init=uniform_between(-0.1, 0.1))
        if self.kind in ["LSTM", "GRU"]:
            self.rnn = {"LSTM": make_lstm, "GRU": make_gru}[self.kind](
                self.width, self.hidden, self.layers, dropout=self.dropout, training=self.training
            )
        else:
            self.rnn = RNN(self.hidden, num_layers=self.layers, dropout=self.dropout, training=self.training)
        self.decoder = nn.Dense(self.words, kernel_init=uniform_between(-0.1, 0.1))

    def __call__(self, tokens, hidden):
        x = self.drop(self.encoder(tokens))
        output, hidden = self.rnn(x, hidden)
        decoded = self.decoder(self.drop(output)).reshape(-1, self.words)
        return nn.log_softmax(decoded, axis=1), hidden

    def init_hidden(self, count):
        if self.kind == "LSTM":
            return (
                jnp.zeros((self.layers, count, self.hidden)),
                jnp.zeros((self.layers, count, self.hidden)),
            )
        return jnp.zeros((self.layers, count, self.hidden))


parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="LSTM")
parser.add_argument("--lr", type=float, default=2.0)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--bptt", type=int, default=5)
parser.add_argument("--save", default="model.pt")
args = parser.parse_args()
key = jax.random.key(1)

texts = Texts(["a b c a b d a c b a"] * 9)


def batchify(data, size):
    count = data.shape[0] // size
    data = jax.lax.dynamic_slice_in_dim(data, 0, count * size, axis=0)
    data = data.reshape(size, -1).T
    return data


train_data = batchify(texts.train, 4)
valid_data = batchify(texts.train, 2)
words = len(texts.words)
model = Recurrent(args.kind, words, 8, 8, 2, 0.0)
criterion = nll_loss


def repackage_hidden(h):
    if isinstance(h, jax.Array):
        return jax.lax.stop_gradient(h)
    else:
        return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    length = min(args.bptt, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


key, subkey = jax.random.split(key)
params = model.init(subkey, get_batch(train_data, 0)[0], repackage_hidden(model.init_hidden(4)))["params"]
grads = jax.tree.map(jnp.zeros_like, params)


def evaluate(params, source):
    total = 0.0
    hidden = model.init_hidden(2)
    for i in range(0, source.shape[0] - 1, args.bptt):
        tokens, targets = get_batch(source, i)
        output, hidden = model.apply({"params": params}, tokens, hidden)
        hidden = repackage_hidden(hidden)
        total += len(tokens) * criterion(output, targets).item()
    return total / (len(source) - 1)


@jax.jit(static_argnames="model", donate_argnames="grads")
def forward_backward(model, params, grads, tokens, targets, hidden, key):
    def loss_fn(params, hidden):
        output, hidden = model.clone(training=True).apply({"params": params}, tokens, hidden, rngs={"dropout": key})
        loss = criterion(output, targets)
        return loss, hidden

    (loss, hidden), new_grads = jax.value_and_grad(loss_fn, has_aux=True)(params, hidden)
    return jax.tree.map(jnp.add, grads, new_grads), {"loss": loss, "hidden": hidden}


def train(params, grads, key):
    hidden = model.init_hidden(4)
    for batch, i in enumerate(range(0, train_data.shape[0] - 1, args.bptt)):
        tokens, targets = get_batch(train_data, i)
        grads = jax.tree.map(jnp.zeros_like, params)
        hidden = repackage_hidden(hidden)
        key, subkey = jax.random.split(key)
        grads, metrics = forward_backward(model, params, grads, tokens, targets, hidden, subkey)
        loss = metrics["loss"]
        hidden = metrics["hidden"]
        grads, _ = clip_grad_norm(grads, args.clip)
        params = jax.tree.map(lambda p, grad: p - lr * grad, params, grads)
        print(f"{batch} {loss.item():.4f}")
    return params, grads


lr = args.lr
best = None
for epoch in range(2):
    key, subkey = jax.random.split(key)
    params, grads = train(params, grads, subkey)
    value = evaluate(params, valid_data)
    print(f"{value:.4f} {math.exp(value):.4f}")
    if not best or value < best:
        with open(args.save, "wb") as f:
            f.write(serialization.to_bytes(params))
        best = value
    else:
        lr /= 4.0

with open(args.save, "rb") as f:
    params = serialization.from_bytes(params, f.read())
print(evaluate(params, valid_data))
