"""Captions of different lengths: the decoder gives the elements of a packed sequence, which the loss compares with those of
the targets. What else is done with such elements is refused."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


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


def packed_labels(outputs, labels, ignore_index=-100):
    """The outputs and labels of two packed sequences as rows, `ignore_index` behind the end of each sequence."""
    (outputs, lengths), (labels, _) = outputs, labels
    steps = min(len(outputs), len(labels))  # the padded arrays need not be equally long
    inside = jnp.arange(steps)[:, None] < lengths
    labels = jnp.where(inside, labels[:steps], ignore_index)
    return outputs[:steps].reshape(-1, outputs.shape[-1]), labels.reshape(-1)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Decoder(nn.Module):
    def setup(self):
        self.embed = nn.Embed(10, 6, embedding_init=nn.initializers.normal(1.0))
        self.lstm = LSTM(5, batch_first=True)
        self.linear = nn.Dense(10, **torch_init(fan_in=5))

    def __call__(self, features, captions, lengths):
        embeddings = jnp.concatenate((jnp.expand_dims(features, 1), self.embed(captions)), axis=1)
        hiddens, _ = self.lstm((embeddings.swapaxes(0, 1), lengths))
        return (self.linear(hiddens[0]), hiddens[1])


def collate(rows):
    rows.sort(key=len, reverse=True)
    lengths = [len(row) for row in rows]
    return torch.randn(len(rows), 6), pad_sequence(rows, batch_first=True), lengths


def accuracy(scores, labels):
    # return (scores.argmax(1) == labels).float().mean()
    raise NotImplementedError("MIG302: scores.argmax(1) of a packed sequence, whose length depends on the data")


rows = [torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6, 7, 8, 9])]
loader = DataLoader(rows, batch_size=3, collate_fn=collate)
decoder = Decoder()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
params = decoder.init(subkey, jnp.asarray(example[0]), jnp.asarray(example[1]), jnp.asarray(example[2]))["params"]
criterion = partial(cross_entropy, ignore_index=0)
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, features, captions, lengths, targets):
    def loss_fn(params):
        outputs = decoder.apply({"params": params}, features, captions, lengths)
        loss = criterion(*packed_labels(outputs, targets, ignore_index=0))
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for features, captions, lengths in loader:
    features, captions, lengths = jnp.asarray(features), jnp.asarray(captions), jnp.asarray(lengths)
    targets = (captions.swapaxes(0, 1), lengths)
    params, opt_state, metrics = train_step(params, opt_state, features, captions, lengths, targets)
    loss = metrics["loss"]
    print(loss.item())


@jax.jit
def eval_step(params, *inputs):
    return decoder.apply({"params": params}, *inputs)


for features, captions, lengths in loader:
    features, captions, lengths = jnp.asarray(features), jnp.asarray(captions), jnp.asarray(lengths)
    scores = eval_step(params, features, captions, lengths)
    # labels, *_ = pack_padded_sequence(captions, lengths, batch_first=True)
    raise NotImplementedError(
        "MIG302: a packed sequence taken apart: its elements are `.data`, as many as the data say"
    )
    # print(accuracy(scores, labels), len(scores), 2 * scores)
    raise NotImplementedError("MIG302: len(scores) of a packed sequence, whose length depends on the data")
