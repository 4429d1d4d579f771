"""Modules that are made outside of the class that holds them: by a builder, by a call in place, under a name."""
import copy
import dataclasses
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class BatchNorm(nn.Module):
    """Batch normalisation with torch's running statistics: the variance is the unbiased one."""

    use_running_average: bool
    momentum: float = 0.1
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = -1
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        features = x.shape[self.axis]
        axis = self.axis % x.ndim
        others = tuple(i for i in range(x.ndim) if i != axis)
        shape = [features if i == axis else 1 for i in range(x.ndim)]
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, features)
        running_var = self.variable("batch_stats", "var", jnp.ones, features)
        if self.use_running_average:
            mean, var = running_mean.value, running_var.value
        else:
            mean = x.mean(others)
            var = jnp.square(x - mean.reshape(shape)).mean(others)
            if not self.is_initializing():
                n = x.size // features
                m = self.momentum
                running_mean.value = (1 - m) * running_mean.value + m * jax.lax.stop_gradient(mean)
                running_var.value = (1 - m) * running_var.value + m * jax.lax.stop_gradient(var) * n / (n - 1)
        y = (x - mean.reshape(shape)) * jax.lax.rsqrt(var + self.epsilon).reshape(shape)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)).reshape(shape)
            y = y + self.param("bias", self.bias_init, (features,)).reshape(shape)
        return y


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


def in_mode(module, training, copies=None):
    """A module in train or eval mode, and the modules that it was given in the same."""
    if isinstance(module, tuple | list):
        return type(module)(in_mode(part, training, copies) for part in module)
    if not isinstance(module, nn.Module):
        return module
    copies = {} if copies is None else copies  # a module that was given twice stays one
    if id(module) not in copies:
        modes = {"training": training, "use_running_average": not training, "deterministic": not training}
        names = [
            field.name for field in dataclasses.fields(module) if field.init and field.name not in ("parent", "name")
        ]
        parts = {name: in_mode(getattr(module, name), training, copies) for name in names if name not in modes}
        copies[id(module)] = module.clone(**parts, **{name: modes[name] for name in names if name in modes})
    return copies[id(module)]


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


def make_layers(widths, batch_norm=False, training=False):
    layers = []
    channels = 3
    for width in widths:
        if width == "M":
            layers += [partial(nn.max_pool, window_shape=(2, 2), strides=(2, 2))]
            continue
        layers += [nn.Conv(width, (3, 3), padding=1, **torch_init(fan_in=channels * 3 * 3))]
        if batch_norm:
            layers += [BatchNorm(use_running_average=not training)]
        layers += [nn.relu]
        channels = width
    return nn.Sequential((*layers, lambda x: jax.lax.collapse(x.transpose(0, 3, 1, 2), start_dimension=1)))


class FeedForward(nn.Module):
    width: int
    dropout: float = 0.1
    training: bool = False

    def setup(self):
        self.up = nn.Dense(2 * self.width, **torch_init(fan_in=self.width))
        self.down = nn.Dense(self.width, **torch_init(fan_in=2 * self.width))
        self.dropout_layer = nn.Dropout(self.dropout, deterministic=not self.training)

    def __call__(self, x):
        return self.down(self.dropout_layer(nn.relu(self.up(x))))


class Block(nn.Module):
    width: int
    feed_forward: Any
    training: bool = False

    def setup(self):
        self.norm = nn.LayerNorm(epsilon=1e-5)

    def __call__(self, x):
        return x + self.feed_forward(self.norm(x))


class Net(nn.Module):
    features: Any
    block: Any
    head: Any
    depth: int
    training: bool = False

    def setup(self):
        self.blocks = [self.block.clone(_deep_clone=True, _reset_names=True) for _ in range(self.depth)]

    def __call__(self, x):
        x = self.features(x.transpose(0, 2, 3, 1))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_model(width=16, classes=4):
    c = copy.deepcopy
    feed_forward = FeedForward(width)
    head = nn.Sequential((
        nn.Dropout(0.2, deterministic=True),
        nn.Dense(classes, **torch_init(fan_in=width)),
    ))
    return Net(
        make_layers([8, "M", 4, "M"], batch_norm=True),
        Block(width, feed_forward.clone(_deep_clone=True, _reset_names=True)),
        head,
        depth=2,
    )


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "batch_stats", "opt_state"))
def train_step(model, optimizer, params, batch_stats, opt_state, x, y, key):
    def loss_fn(params, batch_stats):
        output, mutated = in_mode(model, True).apply(
            {"params": params, "batch_stats": batch_stats}, x, rngs={"dropout": key}, mutable=["batch_stats"]
        )
        batch_stats = mutated["batch_stats"]
        loss = cross_entropy(output, y)
        return loss, batch_stats

    (loss, batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch_stats)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


def main():
    key = jax.random.key(0)
    key, subkey = jax.random.split(key)
    x = jax.random.normal(subkey, (32, 3, 8, 8))
    key, subkey = jax.random.split(key)
    y = jax.random.randint(subkey, (32,), 0, 4)
    model = make_model()
    key, subkey = jax.random.split(key)
    variables = model.init(subkey, x)
    params, batch_stats = variables["params"], variables.get("batch_stats", {})
    optimizer = optax.sgd(0.1)
    opt_state = optimizer.init(params)
    for _ in range(5):
        key, subkey = jax.random.split(key)
        params, batch_stats, opt_state, metrics = train_step(
            model, optimizer, params, batch_stats, opt_state, x, y, subkey
        )
        loss = metrics["loss"]
        print(loss.item(), cross_entropy(eval_step(model, params, batch_stats, x), y).item())


main()
