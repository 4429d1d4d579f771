"""Functions that a trainer calls back: they reach a model of the file, whose weights the trainer has, and draw. Settings
that a constructor changes."""
import copy
import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Settings:
    def __init__(self, width):
        self.width = width
        self.rate = 0.5

    def update(self, **changes):
        self.__dict__.update(changes)


class Net(nn.Module):
    settings: Any = dataclasses.field(hash=False)

    def setup(self):
        settings = copy.deepcopy(self.settings)
        assert settings.width == 2
        settings.double_width = 2 * settings.width
        settings.update(width=settings.double_width)
        self.table = nn.Embed(6, settings.width, embedding_init=nn.initializers.constant(0.5))
        self.head = nn.Dense(6, kernel_init=nn.initializers.constant(0.25))

    def __call__(self, tokens):
        batch, length = tokens.shape
        return self.head(self.table(tokens))


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


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, tokens):
    def loss_fn(params):
        logits = model.apply({"params": params}, tokens[:, :-1])
        loss = cross_entropy(jax.lax.collapse(logits, 0, 2), tokens[:, 1:].reshape(-1))
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


class Trainer:
    def __init__(self, settings, model, params, tokens):
        self.settings = settings
        self.model = model
        self.params = params
        self.tokens = tokens
        self.callbacks = []
        self.steps = 0

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def run(self):
        optimizer = optax.sgd(self.settings.rate)
        opt_state = optimizer.init(self.params)
        for _ in range(3):
            self.params, opt_state, metrics = train_step(self.model, optimizer, self.params, opt_state, self.tokens)
            self.steps += 1
            for callback in self.callbacks:
                callback(self)


settings = Settings(2)
model = Net(settings)
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((1, 1), jnp.int32))["params"]
tokens = jnp.arange(12).reshape(2, 6) % 6
trainer = Trainer(settings, model, params, tokens)


@jax.jit
def eval_step(params, *inputs):
    return model.apply({"params": params}, *inputs)


def spread(params, rows):
    return eval_step(params, rows).std(ddof=1).item()


def report(trainer):
    global key
    key, subkey = jax.random.split(key)
    picked = jax.random.randint(subkey, (2, 3), 0, 6)
    print(trainer.steps, tuple(picked.shape), spread(trainer.params, tokens))


trainer.add_callback(report)
trainer.run()
print(eval_step(trainer.params, tokens).std(ddof=1).item())
