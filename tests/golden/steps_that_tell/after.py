"""A model whose steps tell the trainer what to plot, through an attribute that the trainer puts on it."""

from collections import OrderedDict
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset


class Board:
    def __init__(self):
        self.points = []
        self.xlim = None

    def draw(self, x, y, label):
        self.points.append((x, y, label))
        print(x, y, label)


class Module(nn.Module):
    """The base class of models."""

    def loss(self, y_hat, y):
        raise NotImplementedError

    def __call__(self, X):
        return self.net(X)

    def training_step(self, batch):
        l = self.loss(self(*batch[:-1]), batch[-1])
        return l, {"loss": l, "error": jnp.exp(l)}

    def validation_step(self, batch):
        l = self.loss(self(*batch[:-1]), batch[-1])
        return {"loss": l}

    def configure_optimizers(self):
        optimizer = optax.sgd(self.lr)
        return optimizer


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


class Classifier(Module):
    def loss(self, Y_hat, Y):
        return cross_entropy(Y_hat, Y)


class Net(Classifier):
    num_hidden: int
    num_classes: int
    lr: Any

    def setup(self):
        self.net = nn.Sequential([
            nn.Dense(self.num_hidden, **torch_init(fan_in=4)),
            nn.relu,
            nn.Dense(self.num_classes, **torch_init(fan_in=self.num_hidden)),
        ])


@jax.jit(static_argnames=("model", "optim"), donate_argnames=("params", "opt_state"))
def train_step(model, optim, params, opt_state, batch):
    def loss_fn(params):
        loss, logged = model.apply({"params": params}, batch, method="training_step")
        return loss, OrderedDict(logged)

    (loss, logged), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "logged": logged}


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def prepare_data(self, data):
        self.train_dataloader, self.val_dataloader = data
        self.num_train_batches = len(self.train_dataloader)
        self.train_batch_idx = 0

    def fit(self, model, params, data):
        self.prepare_data(data)
        self.board = Board()
        self.board.xlim = [0, self.max_epochs]
        self.model = model
        self.params = params
        self.optim = model.configure_optimizers()
        self.opt_state = self.optim.init(params)
        for self.epoch in range(self.max_epochs):
            self.fit_epoch()

    def fit_epoch(self):
        for batch in self.train_dataloader:
            self.params, self.opt_state, metrics = train_step(
                self.model, self.optim, self.params, self.opt_state, jax.tree.map(jnp.asarray, batch)
            )
            logged = metrics["logged"]
            for key in ("loss", "error"):
                self.plot(key, logged[key], train=True)
            self.train_batch_idx += 1
        for batch in self.val_dataloader:
            logged = self.model.apply(
                {"params": self.params}, jax.tree.map(jnp.asarray, batch), method="validation_step"
            )
            for key, value in logged.items():
                self.plot(key, value, train=False)

    def plot(self, key, value, train):
        if train:
            x = self.train_batch_idx / self.num_train_batches
        else:
            x = self.epoch + 1
        self.board.draw(
            x, np.asarray(jax.lax.stop_gradient(value)), ('train_' if train else 'val_') + key
        )


torch.manual_seed(0)
rng_key = jax.random.key(0)
X = torch.randn(64, 4)
y = torch.randint(0, 3, (64,))
train = DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True)
val = DataLoader(TensorDataset(X, y), batch_size=16)
model = Net(8, 3, lr=0.1)
rng_key, subkey = jax.random.split(rng_key)
example = train.collate_fn([train.dataset[0]])
params = model.init(subkey, jax.tree.map(jnp.asarray, example), method="training_step")["params"]
trainer = Trainer(max_epochs=2)
trainer.fit(model, params, (train, val))
