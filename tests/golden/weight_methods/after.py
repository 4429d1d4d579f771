"""Methods of a module that work on its weights, initial weights by name through several classes, what a constructor
tells of its weights; a model that another branch makes of a file, and methods that are refused whole."""
import math
import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


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


class Feedforward(nn.Module):
    settings: Any

    def setup(self):
        self.up = nn.Dense(4 * self.settings.width, **torch_init(fan_in=self.settings.width))
        self.down = nn.Dense(
            self.settings.width,
            **torch_init(
                fan_in=4 * self.settings.width,
                kernel_init=nn.initializers.normal(0.02 / math.sqrt(2 * self.settings.layers)),
            )
        )

    def __call__(self, x):
        return self.down(nn.relu(self.up(x)))


class Block(nn.Module):
    options: Any
    dropout: float
    training: bool = False

    def setup(self):
        self.norm = nn.LayerNorm(epsilon=1e-5)
        self.feedforward = Feedforward(self.options)
        self.dropout_layer = nn.Dropout(self.dropout, deterministic=not self.training)

    def __call__(self, x):
        return x + self.dropout_layer(self.feedforward(self.norm(x)))


class Model(nn.Module):
    config: Any = dataclasses.field(hash=False)
    training: bool = False

    def setup(self):
        self.table = nn.Embed(self.config.vocabulary, self.config.width, embedding_init=nn.initializers.normal(1.0))
        self.blocks = [
            Block(self.config, self.config.dropout, training=self.training) for _ in range(self.config.layers)
        ]
        self.head = nn.Dense(self.config.vocabulary, **torch_init(fan_in=self.config.width))

    def report(self, params):
        # how large it is
        count = sum(
            p.size for p in jax.tree.leaves({name: params[name] for name in params if name.startswith("blocks_")})
        )
        print(f"{self.size(params):,} weights, {count:,} of them in {self.config.layers} blocks")

    def size(self, params, with_table=True):
        total = sum(p.size for p in jax.tree.leaves(params))
        if not with_table:
            total -= params["table"]["embedding"].size
        return total

    def optimizer(self, params, rate, decay):
        # matrices and tables decay, biases and norms do not
        decayed = [p for p in jax.tree.leaves(params) if p.ndim >= 2]
        others = [p for p in jax.tree.leaves(params) if p.ndim < 2]
        print(f"{len(decayed)} decayed, {sum(p.size for p in others)} others")
        optimizer = optax.inject_hyperparams(
            lambda learning_rate: optax.adamw(
                learning_rate, weight_decay=decay, mask=lambda params: jax.tree.map(lambda p: p.ndim >= 2, params)
            )
        )(learning_rate=rate)
        return optimizer

    def shortened(self, length):
        # self.table.weight = nn.Parameter(self.table.weight[:length])
        raise NotImplementedError(
            "MIG204: Model.shortened: self.table.weight is cut to length, and no setting of self that makes it says so"
        )

    @classmethod
    def of_another(cls, config, weights, key):
        # model = cls(config)
        # for name, value in model.state_dict().items():
        #     value.copy_(weights[name].t())
        # return model
        raise NotImplementedError(
            "MIG303: Model.of_another: value is changed in place, and may be seen under another name"
        )

    def __call__(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch(key):
    tokens = jax.random.randint(key, (4, 9), 0, 16)
    return tokens[:, :-1], tokens[:, 1:]


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, tokens, targets, key):
    def loss_fn(params):
        loss = cross_entropy(
            jax.lax.collapse(
                model.clone(training=True).apply({"params": params}, tokens, rngs={"dropout": key}), 0, 2
            ),
            targets.reshape(-1),
        )
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train(config, key, weights=None):
    if weights is not None:
        key, subkey = jax.random.split(key)
        model = Model.of_another(config, weights, subkey)
        key, subkey, subkey2 = jax.random.split(key, 3)
        params = model.init(subkey2, batch(subkey)[0])["params"]
        model.report(params)
    else:
        model = Model(config)
        key, subkey, subkey2 = jax.random.split(key, 3)
        params = model.init(subkey2, batch(subkey)[0])["params"]
        model.report(params)
    optimizer = model.optimizer(params, 1e-3, 0.1)
    opt_state = optimizer.init(params)
    key, subkey = jax.random.split(key)
    tokens, targets = batch(subkey)
    for step in range(10):
        opt_state = optax.tree_utils.tree_set(opt_state, learning_rate=np.asarray(1e-3 / (step + 1)))
        key, subkey = jax.random.split(key)
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, tokens, targets, subkey)
        loss = metrics["loss"]
        key, subkey = jax.random.split(key)
        tokens, targets = batch(subkey)  # the next one while this one is worked on
        print(step, loss.item(), model.size(params, with_table=False))
