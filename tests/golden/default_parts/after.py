"""Modules that constructors are given, or else make, whose weights have the names of the attributes all the same; and a
head that is put on a model which has its weights by then."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
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


class Branches(nn.Module):
    width: int = 8
    first: Any = None
    second: Any = None
    third: Any = None
    last: Any = None
    new_head: Any = None
    new_second: Any = None
    training: bool = False

    def setup(self):
        second = self.second
        self.first_layer = (
            nn.Dense(self.width, **torch_init(fan_in=self.width)) if self.first is None else self.first.copy()
        )
        if second is None:
            second = nn.Dense(self.width, **torch_init(fan_in=self.width))
        self.second_layer = second.copy() if self.new_second is None else self.new_second.copy()
        self.row = nn.Sequential([
            nn.Dense(self.width, **torch_init(fan_in=self.width)),
            nn.relu,
            nn.Dense(self.width, **torch_init(fan_in=self.width)) if self.third is None else self.third.copy(),
        ])
        if self.last is None:
            self.head = nn.Dense(2, **torch_init(fan_in=self.width)) if self.new_head is None else self.new_head.copy()
        else:
            self.head = self.last.copy() if self.new_head is None else self.new_head.copy()

    def __call__(self, x):
        return self.head(self.row(self.second_layer(self.first_layer(x))))


key = jax.random.key(0)
key, subkey, subkey2 = jax.random.split(key, 3)
x, y = jax.random.normal(subkey, (16, 8)), jax.random.randint(subkey2, (16,), 0, 2)

usual = Branches()
key, subkey = jax.random.split(key)
usual_params = usual.init(subkey, x)["params"]
own = Branches(
    first=nn.Sequential((
    nn.Dense(8, **torch_init(fan_in=8)),
    nn.Dropout(0.2, deterministic=True),
)),
    second=nn.Dense(8, use_bias=False, **torch_init(fan_in=8)),
    third=nn.Sequential((
    nn.Dense(8, **torch_init(fan_in=8)),
    nn.relu,
)),
    last=nn.Dense(3, **torch_init(fan_in=8)),
)
key, subkey = jax.random.split(key)
own_params = own.init(subkey, x)["params"]
print(sum(p.size for p in jax.tree.leaves(usual_params)))
usual = usual.clone(new_head=nn.Sequential((
    nn.Dense(4, **torch_init(fan_in=8)),
    nn.tanh,
    nn.Dense(3, **torch_init(fan_in=4)),
)))
key, subkey = jax.random.split(key)
usual_params["head"] = usual.init(subkey, x)["params"]["head"]
print(usual_params["second_layer"]["kernel"].shape[1])
usual = usual.clone(new_second=nn.Sequential([lambda x: x]))
usual_params.pop("second_layer", None)


@jax.jit(static_argnames="optimizer", donate_argnames=("usual_params", "opt_state"))
def train_step(optimizer, usual_params, opt_state, x, y, key):
    def loss_fn(usual_params):
        loss = cross_entropy(in_mode(usual, True).apply({"params": usual_params}, x, rngs={"dropout": key}), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(usual_params)
    updates, opt_state = optimizer.update(grads, opt_state, usual_params)
    usual_params = optax.apply_updates(usual_params, updates)
    return usual_params, opt_state, {"loss": loss}


@jax.jit(static_argnames="optimizer", donate_argnames=("own_params", "opt_state"))
def train_step_2(optimizer, own_params, opt_state, x, y, key):
    def loss_fn(own_params):
        loss = cross_entropy(in_mode(own, True).apply({"params": own_params}, x, rngs={"dropout": key}), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(own_params)
    updates, opt_state = optimizer.update(grads, opt_state, own_params)
    own_params = optax.apply_updates(own_params, updates)
    return own_params, opt_state, {"loss": loss}


optimizer = optax.sgd(0.1)
opt_state = optimizer.init(usual_params)
for step in range(4):
    key, subkey = jax.random.split(key)
    usual_params, opt_state, metrics = train_step(optimizer, usual_params, opt_state, x, y, subkey)
    loss = metrics["loss"]
    print(loss.item())
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(own_params)
for step in range(4):
    key, subkey = jax.random.split(key)
    own_params, opt_state, metrics = train_step_2(optimizer, own_params, opt_state, x, y, subkey)
    loss = metrics["loss"]
    print(loss.item())
