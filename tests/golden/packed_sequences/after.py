"""Sequences of different lengths, packed for a recurrent layer: the lengths go along with the padded array. What reads the
elements of a packed sequence is refused."""

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


class PaddedEmbed(nn.Embed):
    """An embedding whose row `padding_idx`, if there is one, learns nothing from being looked up. It starts at zero,
    unless an initialiser is given."""

    padding_idx: int | None = 0
    embedding_init: Any = None

    def setup(self):
        def initial(key, shape, dtype):
            drawn = nn.initializers.normal(1.0)(key, shape, dtype)
            return drawn if self.padding_idx is None else drawn.at[self.padding_idx].set(0)

        given = self.embedding_init or initial
        self.embedding = self.param("embedding", given, (self.num_embeddings, self.features), self.param_dtype)

    def __call__(self, inputs):
        y = super().__call__(inputs)
        if self.padding_idx is None:
            return y
        padding = (inputs == self.padding_idx % self.num_embeddings)[..., None]
        return jnp.where(padding, jax.lax.stop_gradient(y), y)


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


def pad_packed_sequence(packed, batch_first=False, padding_value=0.0, total_length=None):
    """The array of a packed sequence, `padding_value` behind the end of each sequence, and the lengths."""
    x, lengths = packed
    if total_length is not None:
        missing = max(total_length - len(x), 0)
        x = jnp.pad(x[:total_length], [(0, missing), *[(0, 0)] * (x.ndim - 1)])
    inside = (jnp.arange(len(x))[:, None] < lengths).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    x = jnp.where(inside, x, jnp.asarray(padding_value, x.dtype))
    return (x.swapaxes(0, 1) if batch_first else x), lengths


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Tagger(nn.Module):
    def setup(self):
        self.embed = PaddedEmbed(10, 6)
        self.rnn = LSTM(5, batch_first=True, bidirectional=True)
        self.tag = nn.Dense(3, **torch_init(fan_in=10))

    def __call__(self, tokens, lengths):
        packed = (self.embed(tokens).swapaxes(0, 1), lengths)
        outputs, (hidden, _) = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        return self.tag(outputs), hidden

    def elements(self, tokens, lengths):
        packed = (self.embed(tokens).swapaxes(0, 1), jnp.asarray(lengths))
        outputs, _ = self.rnn(packed)
        # return self.tag(outputs.data) + outputs[0].mean()
        raise NotImplementedError("MIG302: outputs[0].mean() of a packed sequence, whose length depends on the data")


def collate(rows):
    return pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])


rows = [torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6, 7, 8, 9])]
loader = DataLoader(rows, batch_size=3, collate_fn=collate)
model = Tagger()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
params = model.init(subkey, jnp.asarray(example[0]), jnp.asarray(example[1]))["params"]
criterion = partial(cross_entropy, ignore_index=0)
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, tokens, lengths):
    def loss_fn(params):
        scores, hidden = model.apply({"params": params}, tokens, lengths)
        loss = criterion(scores.swapaxes(1, 2), tokens % 3) + (hidden ** 2).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for tokens, lengths in loader:
    tokens, lengths = jnp.asarray(tokens), jnp.asarray(lengths)
    params, opt_state, metrics = train_step(params, opt_state, tokens, lengths)
    loss = metrics["loss"]
    print(loss.item())
