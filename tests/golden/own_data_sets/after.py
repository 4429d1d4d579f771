"""Data sets of the script's own, which hold tensors that it made, transforms, and functions of theirs that use torch.nn."""
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
import tqdm
from torch.utils.data import DataLoader, Dataset


CENTER = torch.tensor([0.1, 0.2, 0.3, 0.4])


def centered(x):
    return torch.flip(x - CENTER, [1])


class Scale:
    def __init__(self, by):
        self.by = torch.tensor(by)

    def __call__(self, x):
        return x * self.by


class Chain:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


class Settings:
    def __init__(self, device, lr):
        self.device, self.lr, self.limit = jax.default_backend(), lr, 2.0


class Sequences(Dataset):
    def __init__(self, values, lengths, labels, transform, settings):
        self.transform = transform
        self.limit = Limit(settings.limit)
        self.values, self.lengths, self.labels = values, lengths, labels
        self.by_label = {int(label): (labels == label).nonzero().flatten().tolist() for label in labels.unique()}

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.limit(self.values[index][: int(self.lengths[index])])), self.labels[index]


class Limit:
    def __init__(self, most):
        self.most = most

    def __call__(self, x):
        return torch.clamp(x, -self.most, self.most)


def collate(batch):
    values, labels = zip(*batch)
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True), torch.stack(labels)


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


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Reader(nn.Module):
    def setup(self):
        self.gru = GRU(8, batch_first=True)
        self.out = nn.Dense(3, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.out(self.gru(x)[0].mean(axis=1))


torch.manual_seed(0)
key = jax.random.key(0)
values = torch.randn(32, 6, 4)
lengths = torch.randint(3, 7, (32,))
labels = torch.randint(0, 3, (32,))
settings = Settings("cpu", 0.01)
data = Sequences(values, lengths, labels, Chain([centered, Scale([1.0, 2.0, 1.0, 0.5])]), settings)
print(len(data), sorted(data.by_label))
loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
model = Reader()
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
params = model.init(subkey, jnp.asarray(example[0]))["params"]
optimizer = optax.adam(settings.lr)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y):
    def loss_fn(params):
        loss = cross_entropy(model.apply({"params": params}, x), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for epoch in range(2):
    for _, (x, y) in tqdm.tqdm(enumerate(loader)):
        x, y = jnp.asarray(x), jnp.asarray(y)
        params, opt_state, metrics = train_step(params, opt_state, x, y)
        loss = metrics["loss"]
        print(loss.item())
