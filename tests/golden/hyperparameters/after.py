"""Constructors that keep their arguments by looking at the frame, and settings of a base that nobody gives."""

import inspect
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset


class HyperParameters:
    def save_hyperparameters(self, ignore=[]):
        """Save function arguments into class attributes."""
        frame = inspect.currentframe().f_back
        _, _, _, local_vars = inspect.getargvalues(frame)
        self.hparams = {k: v for k, v in local_vars.items()
                        if k not in set(ignore+['self']) and not k.startswith('_')}
        for k, v in self.hparams.items():
            setattr(self, k, v)


class Module(nn.Module, HyperParameters):
    """The base class of models."""

    plot_train_per_epoch = 2
    plot_valid_per_epoch = 1

    def loss(self, y_hat, y):
        raise NotImplementedError

    def __call__(self, X):
        return self.net(X)

    def training_step(self, batch):
        l = self.loss(self(*batch[:-1]), batch[-1])
        return l

    def validation_step(self, batch):
        l = self.loss(self(*batch[:-1]), batch[-1])
        return l

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
        loss = model.apply({"params": params}, batch, method="training_step")
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


class Trainer(HyperParameters):
    def __init__(self, max_epochs):
        self.save_hyperparameters()

    def prepare_data(self, data):
        self.train_dataloader, self.val_dataloader = data

    def fit(self, model, params, data):
        self.prepare_data(data)
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
            loss = metrics["loss"]
        print(loss.item() / self.model.plot_train_per_epoch)
        for batch in self.val_dataloader:
            print(
                self.model.apply(
                    {"params": self.params}, jax.tree.map(jnp.asarray, batch), method="validation_step"
                ).item()
            )


torch.manual_seed(0)
key = jax.random.key(0)
X = torch.randn(64, 4)
y = torch.randint(0, 3, (64,))
train = DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True)
val = DataLoader(TensorDataset(X, y), batch_size=16)
model = Net(8, 3, lr=0.1)
key, subkey = jax.random.split(key)
example = train.collate_fn([train.dataset[0]])
params = model.init(subkey, jax.tree.map(jnp.asarray, example), method="training_step")["params"]
trainer = Trainer(max_epochs=2)
trainer.fit(model, params, (train, val))
