"""Weights by torch's names: a model that takes them from a checkpoint of another library, key by key; a dict of them
that a script looks into and puts back; a table and a mask that are cut to a shorter length."""
import re
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict
from flax.traverse_util import unflatten_dict
from dataclasses import dataclass

from checkpoints_of_others import TinyModel


@dataclass
class Config:
    length: int = 16
    vocabulary: int = 32
    width: int = 8
    layers: int = 2


def constants(model, params, names):
    """The tensors that a model makes of its settings, a mask for example, by torch's names: those without a place."""
    waiting = [(model.bind({"params": params}), name.split("."), "") for name, place in names.items() if place is None]
    found = {}
    while waiting:
        module, (part, *rest), done = waiting.pop()
        if part.startswith("{"):
            children = {str(number): child for number, child in enumerate(module)}
        else:
            children = {part: module[part] if isinstance(module, Mapping) else getattr(module, part, None)}
        for key, child in children.items():
            if rest and child is not None:
                waiting.append((child, rest, f"{done}{key}."))
            elif child is not None:
                found[f"{done}{key}"] = child
    return found


def state_dict(params, names, model=None):
    """The weights under the names that they have in torch, with torch's axes. `names`: where each is, {0} in a list;
    those without a place are constants of `model`."""
    leaves = flatten_dict(params, sep="/") | (constants(model, params, names) if model is not None else {})
    return {
        name: jnp.transpose(leaves[path], np.argsort(axes)) if axes else leaves[path]
        for name, path, axes in torch_names(leaves, names)
    }


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


def torch_names(leaves, names):
    """torch's name of each leaf, in torch's order, with its path and the order that its axes have here."""
    found = []
    for number, (name, place) in enumerate(names.items()):
        places = place.values() if isinstance(place, dict) else [place or (name, None)]
        heads = [name[: brace.start()] for brace in re.finditer("{", name)]
        firsts = [next(i for i, other in enumerate(names) if other.startswith(head + "{")) for head in heads]
        for leaf, (path, axes) in ((leaf, one) for leaf in leaves for one in places):
            match = re.fullmatch(re.sub(r"\\{\d\\}", r"(\\d+)", re.escape(path)), leaf)
            if match:
                indices = [int(index) for index in match.groups()]
                order = [place for pair in zip(firsts, indices) for place in pair]
                found.append(([*order, number], name.format(*indices), leaf, axes))
    return [entry for _, *entry in sorted(found, key=lambda entry: entry[0])]


def with_state_dict(params, weights, names, model=None):
    """`params` with the weights that a dict has under torch's names, which must be all of them."""
    before = flatten_dict(params, sep="/") | (constants(model, params, names) if model is not None else {})
    leaves, known = flatten_dict(params, sep="/"), torch_names(before, names)
    if weights.keys() != {name for name, *_ in known}:
        raise KeyError(f"not the names of these weights: {sorted(weights.keys() ^ {name for name, *_ in known})}")
    for name, path, axes in known:
        value = jnp.asarray(weights[name], before[path].dtype)
        value = jnp.transpose(value, axes) if axes else value
        if value.shape != before[path].shape:
            raise ValueError(f"{name} has the shape {value.shape} where {before[path].shape} is wanted")
        if jnp.array_equal(value, before[path]):  # tied weights have several names: one that changes is enough
            continue
        if path not in leaves:
            raise ValueError(f"{name} is a constant of the model")
        if leaves[path] is not before[path] and not jnp.array_equal(value, leaves[path]):
            raise ValueError(f"{name} is one weight with another, which is something else")
        leaves[path] = value
    return unflatten_dict(leaves, sep="/")


class Mixer(nn.Module):
    config: Any

    def setup(self):
        self.norm = nn.LayerNorm(epsilon=1e-5)
        self.linear = nn.Dense(self.config.width, use_bias=False, **torch_init(fan_in=self.config.width))
        self.fused = True
        if not self.fused:
            self.mask = jnp.tril(jnp.ones((self.config.length, self.config.length))).reshape(
                1, self.config.length, self.config.length
            )

    def __call__(self, x):
        return x + jnp.cumsum(self.linear(self.norm(x)), axis=1)


MODEL_WEIGHTS = {
    "tokens.weight": ("tokens/embedding", None),
    "positions.weight": ("positions/embedding", None),
    "blocks.{0}.norm.weight": ("blocks_{0}/norm/scale", None),
    "blocks.{0}.norm.bias": ("blocks_{0}/norm/bias", None),
    "blocks.{0}.linear.weight": ("blocks_{0}/linear/kernel", (1, 0)),
    "head.weight": ("tokens/embedding", None),
}


class Model(nn.Module):
    config: Any

    def setup(self):
        assert self.config.length > 0
        self.tokens = nn.Embed(self.config.vocabulary, self.config.width, embedding_init=nn.initializers.normal(1.0))
        self.positions = nn.Embed(self.config.length, self.config.width, embedding_init=nn.initializers.normal(1.0))
        self.blocks = [Mixer(self.config) for _ in range(self.config.layers)]

    def __call__(self, tokens):
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.positions(jnp.arange(length))
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(x)

    def shorten(self, params, length):
        assert length <= self.config.length
        self.config.length = length
        params = {**params, "positions": {"embedding": params["positions"]["embedding"][:length]}}
        return params

    @classmethod
    def from_other(cls, size):
        key = jax.random.key(0)
        model = cls(Config(width=size))
        key, subkey = jax.random.split(key)
        params = model.init(subkey, jnp.zeros((1, 1), jnp.int32))["params"]
        own = state_dict(params, MODEL_WEIGHTS)
        theirs = {name: jnp.asarray(value) for name, value in TinyModel.from_pretrained(size).state_dict().items()}
        names = [name for name in theirs.keys() if not name.endswith(".counter")]
        assert len(names) == len(own), f"{len(names)} names, {len(own)} weights"
        for name in names:
            if name.endswith("linear.weight"):
                assert theirs[name].shape[::-1] == own[name].shape
                own[name] = theirs[name].T
            else:
                own[name] = theirs[name]
        params = with_state_dict(params, own, MODEL_WEIGHTS)
        return params, model


params, model = Model.from_other(8)
params = model.shorten(params, 6)
weights = state_dict(params, MODEL_WEIGHTS)
for name, value in weights.items():
    print(name, tuple(value.shape))
weights["tokens.weight"] = weights["head.weight"] = 0.5 * weights["tokens.weight"]
params = with_state_dict(params, weights, MODEL_WEIGHTS)


@jax.jit
def eval_step(params, *inputs):
    return model.apply({"params": params}, *inputs)


print(eval_step(params, jnp.arange(12).reshape(2, 6)).sum())
