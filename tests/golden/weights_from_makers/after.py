"""Functions that make a model and read weights for it where they are told to: their callers get both."""

import sys
from typing import Optional
import re
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
from flax.traverse_util import unflatten_dict
import torch
from checkpoints_of_others import Published


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


def from_state_dict(weights, names):
    """The weights that a dict has under torch's names, in their places here. `names`: where each is, {0} in a list, by
    its number of axes where that decides; those without a place are no weights here."""
    patterns = {re.sub(r"\\{\d\\}", r"(\\d+)", re.escape(name)): place for name, place in names.items()}
    leaves = {}
    for name, value in weights.items():
        found = [(match, place) for pattern, place in patterns.items() if (match := re.fullmatch(pattern, name))]
        if not found:
            raise KeyError(f"{name} is no weight of this model")
        for match, place in ((match, place) for match, place in found if place):
            value = jnp.asarray(value)
            path, axes = place[value.ndim] if isinstance(place, dict) else place
            value = value.astype(jnp.float32) if jnp.issubdtype(value.dtype, jnp.floating) else value
            leaves[path.format(*match.groups())] = jnp.transpose(value, axes) if axes else value
    return unflatten_dict(leaves, sep="/")


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Block(nn.Module):
    width: int
    training: bool = False

    def setup(self):
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.linear = nn.Dense(self.width, **torch_init(fan_in=self.width))

    def __call__(self, x):
        return x + self.linear(nn.relu(self.norm(x)))


class Classifier(nn.Module):
    width: int
    depth: int
    training: bool = False

    def setup(self):
        self.stem = nn.Dense(self.width, **torch_init(fan_in=4))
        self.blocks = nn.Sequential([Block(self.width, training=self.training) for _ in range(self.depth)])
        self.head = nn.Dense(3, **torch_init(fan_in=self.width))

    def __call__(self, x):
        return self.head(self.blocks(self.stem(x)))


class Autoencoder(nn.Module):
    width: int

    def setup(self):
        self.encoder = nn.Dense(self.width, **torch_init(fan_in=4))
        self.decoder = nn.Dense(4, **torch_init(fan_in=self.width))

    def __call__(self, x):
        return self.decoder(jnp.tanh(self.encoder(x)))


CLASSIFIER_WEIGHTS = {
    "stem.weight": ("params/stem/kernel", (1, 0)),
    "stem.bias": ("params/stem/bias", None),
    "blocks.{0}.norm.weight": ("params/blocks/layers_{0}/norm/scale", None),
    "blocks.{0}.norm.bias": ("params/blocks/layers_{0}/norm/bias", None),
    "blocks.{0}.norm.running_mean": ("batch_stats/blocks/layers_{0}/norm/mean", None),
    "blocks.{0}.norm.running_var": ("batch_stats/blocks/layers_{0}/norm/var", None),
    "blocks.{0}.norm.num_batches_tracked": None,
    "blocks.{0}.linear.weight": ("params/blocks/layers_{0}/linear/kernel", (1, 0)),
    "blocks.{0}.linear.bias": ("params/blocks/layers_{0}/linear/bias", None),
    "head.weight": ("params/head/kernel", (1, 0)),
    "head.bias": ("params/head/bias", None),
}


def classifier(width: int, depth: int, published: Optional[Published]):
    model = Classifier(width, depth)
    params = None
    batch_stats = None
    if published is not None:
        variables = from_state_dict(published.get_state_dict(progress=False), CLASSIFIER_WEIGHTS)
        params, batch_stats = variables["params"], variables["batch_stats"]
    return params, batch_stats, model


def small_classifier(published: Optional[Published] = None):
    """The published one has these sizes."""
    return classifier(8, 2, published)


def deep_classifier(weights: dict):
    """As deep as the weights say."""
    depth = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    model = Classifier(weights["stem.weight"].shape[0], depth)
    variables = from_state_dict(weights, CLASSIFIER_WEIGHTS)
    params, batch_stats = variables["params"], variables["batch_stats"]
    return params, batch_stats, model


def classifier_of_the_web(pretrained: bool = False, **sizes: int):
    model = Classifier(**sizes)
    params = None
    batch_stats = None
    if pretrained:
        weights = torch.hub.load_state_dict_from_url("https://example.org/classifier.pth", map_location="cpu")
        weights = {name.removeprefix("module."): weight for name, weight in weights.items()}
        variables = from_state_dict(weights, CLASSIFIER_WEIGHTS)
        params, batch_stats = variables["params"], variables["batch_stats"]
    return params, batch_stats, model


def autoencoder(width: int, path: Optional[str] = None):
    model = Autoencoder(width)
    params = None
    if path:
        params = serialization.msgpack_restore(Path(path).read_bytes())
    return params, model


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, x):
    def loss_fn(params):
        loss = ((model.apply({"params": params}, x) - x) ** 2).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def main() -> None:
    key = jax.random.key(0)
    params, model = autoencoder(2, sys.argv[1] if len(sys.argv) > 1 else None)
    if params is None:
        key, subkey = jax.random.split(key)
        params = model.init(subkey, jnp.zeros((8, 4)))["params"]
    optimizer = optax.sgd(0.1)
    opt_state = optimizer.init(params)
    for _ in range(3):
        key, subkey = jax.random.split(key)
        x = jax.random.normal(subkey, (8, 4))
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, x)
    Path("autoencoder.pt").write_bytes(serialization.to_bytes(params))


if __name__ == "__main__":
    main()
