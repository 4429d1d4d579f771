"""Weights that are kept beside a model: a class that averages them by name, copies that are compared with what they have
become, and the weights of the best epoch."""
import copy
import re
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
from flax.traverse_util import flatten_dict
from flax.traverse_util import unflatten_dict


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


class Net(nn.Module):
    def setup(self):
        self.hidden = nn.Dense(4, **torch_init(fan_in=3))
        self.head = nn.Dense(2, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.head(jnp.tanh(self.hidden(x)))


class EMA:
    def __init__(self, model, params, decay):
        self.model = model
        self.decay = decay
        self.shadow = {}
        self.backup = {}
        for name, param in flatten_dict(params, sep=".").items():
            self.shadow[name] = jnp.copy(param)

    def update(self, params):
        for name, param in flatten_dict(params, sep=".").items():
            assert name in self.shadow
            new_average = (1.0 - self.decay) * param + self.decay * self.shadow[name]
            self.shadow[name] = jnp.copy(new_average)

    def apply_shadow(self, params):
        weights = flatten_dict(params, sep=".")
        for name, param in weights.items():
            self.backup[name] = param
            weights[name] = self.shadow[name]
        params = unflatten_dict(weights, sep=".")
        return params

    def restore(self, params):
        weights = flatten_dict(params, sep=".")
        for name in weights:
            weights[name] = self.backup[name]
        params = unflatten_dict(weights, sep=".")
        self.backup = {}
        return params


key = jax.random.key(0)
key, subkey, subkey2 = jax.random.split(key, 3)
x, y = jax.random.normal(subkey, (16, 3)), jax.random.randint(subkey2, (16,), 0, 2)
model = Net()
key, subkey = jax.random.split(key)
params = model.init(subkey, x)["params"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)
ema = EMA(model, params, 0.9)
first = jnp.copy(params["head"]["bias"])
slow = {name: jnp.copy(param) for name, param in flatten_dict(params, sep=".").items()}
best, best_weights = float("inf"), None
start = copy.deepcopy(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y, first):
    def loss_fn(params):
        loss = (
            cross_entropy(model.apply({"params": params}, x), y)
            + 0.1 * jnp.square(params["head"]["bias"] - first).sum()
        )
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


NET_WEIGHTS = {
    "hidden.weight": ("hidden/kernel", (1, 0)),
    "hidden.bias": ("hidden/bias", None),
    "head.weight": ("head/kernel", (1, 0)),
    "head.bias": ("head/bias", None),
}


@jax.jit
def eval_step(params, *inputs):
    return model.apply({"params": params}, *inputs)


for epoch in range(6):
    params, opt_state, metrics = train_step(params, opt_state, x, y, first)
    loss = metrics["loss"]
    params = {**params, "head": {**params["head"], "bias": jnp.clip(params["head"]["bias"], -0.3, 0.3)}}
    params = {**params, "hidden": {**params["hidden"], "kernel": params["hidden"]["kernel"] * 0.99}}
    ema.update(params)
    for name, param in flatten_dict(params, sep=".").items():
        slow[name] = (slow[name] * 0.5) + 0.5 * param
    if epoch == 2:
        best, best_weights = loss.item(), {
            name: jnp.copy(value) for name, value in state_dict(params, NET_WEIGHTS).items()
        }
    params = ema.apply_shadow(params)
    print("averaged", cross_entropy(eval_step(params, x), y).item())
    params = ema.restore(params)
    print("as it is", cross_entropy(eval_step(params, x), y).item())
weights = flatten_dict(params, sep=".")
for name in weights:
    weights[name] = jnp.copy(slow[name])
params = unflatten_dict(weights, sep=".")
print("slow", cross_entropy(eval_step(params, x), y).item())
params = with_state_dict(params, best_weights, NET_WEIGHTS)
print("best", best, cross_entropy(eval_step(params, x), y).item())
params = serialization.from_state_dict(params, start)
print("start", cross_entropy(eval_step(params, x), y).item())
params = with_state_dict(params, best_weights, NET_WEIGHTS)
print(
    "head",
    params["head"]["kernel"].T[0, 1].item(),
    params["head"]["bias"][1].item(),
    "first",
    params["hidden"]["kernel"].T[2, 1].item(),
)
