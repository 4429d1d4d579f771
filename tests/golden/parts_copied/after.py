"""Parts that a helper copies, which callers give modules of several classes: it is one function in the output. A row of layers
among the arguments of a constructor has copies, too."""

import copy
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def clones(module, count):
    return [module.clone(_deep_clone=True, _reset_names=True) for _ in range(count)]


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


class Attention(nn.Module):
    heads: Any
    width: int

    def setup(self):
        self.linears = clones(nn.Dense(self.width, **torch_init(fan_in=self.width)), 4)

    def __call__(self, query, key, value):
        query, key, value = [
            lin(x).reshape(x.shape[0], -1, self.heads, x.shape[-1] // self.heads).swapaxes(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        weights = nn.softmax(query @ key.swapaxes(-2, -1), axis=-1)
        x = (weights @ value).swapaxes(1, 2)
        return self.linears[-1](x.reshape(x.shape[0], -1, x.shape[-1] * self.heads))


class Sublayer(nn.Module):
    width: int

    def setup(self):
        self.norm = nn.LayerNorm(epsilon=1e-5)

    def __call__(self, x, sublayer):
        return x + sublayer(self.norm(x))


class Layer(nn.Module):
    width: int
    attention: Any
    feed: Any

    def setup(self):
        self.sublayer = clones(Sublayer(self.width), 2)

    def __call__(self, x):
        x = self.sublayer[0](x, lambda x: self.attention(x, x, x))
        return self.sublayer[1](x, self.feed)


class Encoder(nn.Module):
    layer: Any
    count: Any

    def setup(self):
        self.layers = clones(self.layer, self.count)
        self.norm = nn.LayerNorm(epsilon=1e-5)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Positions(nn.Module):
    width: Any

    def setup(self):
        self.table = jnp.expand_dims(jnp.arange(16).astype(jnp.float32), 1) / self.width

    def __call__(self, x):
        return x + self.table[: x.shape[1]]


class Model(nn.Module):
    encoder: Any
    embed: Any
    head: Any

    def __call__(self, x):
        return self.head(self.encoder(self.embed(x)))


def make_model(width=8, count=2):
    c = copy.deepcopy
    attention = Attention(2, width)
    feed = nn.Dense(width, **torch_init(fan_in=width))
    position = Positions(width)
    model = Model(
        Encoder(
            Layer(
                width,
                attention.clone(_deep_clone=True, _reset_names=True),
                feed.clone(_deep_clone=True, _reset_names=True),
            ),
            count,
        ),
        nn.Sequential(
            (
                nn.Embed(10, width, embedding_init=nn.initializers.normal(1.0)),
                position.clone(_deep_clone=True, _reset_names=True),
            )
        ),
        nn.Dense(10, **torch_init(fan_in=width)),
    )
    return model


model = make_model()
rng_key = jax.random.key(0)
rng_key, subkey = jax.random.split(rng_key)
params = model.init(subkey, jnp.zeros((4, 6), dtype=jnp.int32))["params"]
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, tokens):
    def loss_fn(params):
        loss = cross_entropy(model.apply({"params": params}, tokens).swapaxes(1, 2), tokens)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for _ in range(3):
    rng_key, subkey = jax.random.split(rng_key)
    tokens = jax.random.randint(subkey, (4, 6), 0, 10)
    params, opt_state, metrics = train_step(params, opt_state, tokens)
    loss = metrics["loss"]
    print(loss.item())
