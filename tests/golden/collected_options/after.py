"""What libraries of layers write: device and type collected once, layers that may be None, weights filled as matrices,
rates read out of a tensor."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def table(width, count):
    return jnp.arange(width * count, dtype=jnp.float32).reshape(count, width) / 10


class Patches(nn.Module):
    patch: int
    channels: int
    width: int

    def setup(self):
        self.count = 16 // self.patch**2
        self.proj = nn.Conv(
            self.width,
            (self.patch, self.patch),
            strides=(self.patch, self.patch),
            padding="VALID",
            kernel_init=nn.initializers.xavier_uniform(in_axis=(0, 1, 2), out_axis=-1),
        )

    def __call__(self, x):
        assert x.shape[2] == 4, "four rows are expected"
        return jax.lax.collapse(self.proj(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), 2).swapaxes(1, 2)


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


def make_conv2d(in_channels, out_channels, kernel_size):
    return nn.Conv(
        out_channels,
        (kernel_size, kernel_size),
        padding="VALID",
        **torch_init(fan_in=in_channels * kernel_size * kernel_size)
    )


def make_linear(in_features, out_features):
    return nn.Dense(out_features, **torch_init(fan_in=in_features))


class Mixer(nn.Module):
    width: int
    gated: bool = False
    wide: bool = False
    norm_layer: Any = None
    drop: float = 0.0
    training: bool = False

    def setup(self):
        """Makes the layers of a block."""
        width = self.width
        hidden = width * 2
        width = width or 1
        made = partial(make_conv2d, kernel_size=1) if self.wide else make_linear
        self.fc1 = made(width, hidden)
        self.norm = self.norm_layer(hidden) if self.norm_layer is not None else (lambda x: x)
        self.gate = nn.Dense(hidden, use_bias=False, **torch_init(fan_in=hidden)) if self.gated else None
        self.fc2 = nn.Dense(width, **torch_init(fan_in=hidden))
        self.drop_layer = nn.Dropout(self.drop, deterministic=not self.training)

    def __call__(self, x):
        x = self.norm(nn.relu(self.fc1(x)))
        if self.gate is not None:
            x = x * nn.sigmoid(self.gate(x))
        x = self.fc2(x)
        return x if self.drop_layer.rate == 0.0 else self.drop_layer(x)


class Net(nn.Module):
    width: int = 8
    training: bool = False

    def setup(self):
        self.patches = Patches(2, 3, self.width)
        self.places = jax.lax.stop_gradient(
            self.param(
                "places",
                lambda key, shape, dtype=jnp.float32: jnp.broadcast_to(
                    jnp.expand_dims(table(shape[-1], self.patches.count), 0), shape
                ),
                (1, self.patches.count, self.width),
            )
        )
        with jax.ensure_compile_time_eval():
            spread = jnp.linspace(0, 0.2, 2)
            rates = [rate.item() for rate in spread]
        self.mixer = Mixer(self.width, drop=rates[0], training=self.training)
        self.head = nn.Dense(2, **torch_init(fan_in=self.width, kernel_init=nn.initializers.normal(0.02)))

    def __call__(self, x):
        x = self.patches(x) + self.places
        return self.head(self.mixer(x).mean(axis=1))


model = Net()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((4, 3, 4, 4)))["params"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)
key, subkey = jax.random.split(key)
x, y = jax.random.uniform(subkey, (4, 3, 4, 4)), jnp.array([0, 1, 0, 1])


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y, key):
    def loss_fn(params):
        loss = cross_entropy(model.clone(training=True).apply({"params": params}, x, rngs={"dropout": key}), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for step in range(3):
    key, subkey = jax.random.split(key)
    params, opt_state, metrics = train_step(params, opt_state, x, y, subkey)
