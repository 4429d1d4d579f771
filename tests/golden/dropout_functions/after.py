"""Dropout by torch's functions: as the mode says, always, and at a rate that each call is given."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def apply_dropout(key, x, rate, training=True):
    """Zeroes elements with probability `rate` and scales the others by 1 / (1 - rate), in train mode."""
    if not training or rate == 0:
        return x
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0) if rate < 1 else jnp.zeros_like(x)


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


class Net(nn.Module):
    channels: int
    dropout: Any
    training: bool = False

    def setup(self):
        self.conv = nn.Conv(self.channels, (3, 3), padding="VALID", **torch_init(fan_in=1 * 3 * 3))
        self.hidden = nn.Dense(16, **torch_init(fan_in=self.channels * 36))
        self.head = nn.Dense(4, **torch_init(fan_in=16))
        self.dropout2d = nn.Dropout(0.5, broadcast_dims=(1, 2), deterministic=not self.training)
        self.drop = nn.Dropout(self.dropout, deterministic=not self.training)
        self.dropout_2 = nn.Dropout(0.1, deterministic=not self.training)

    def __call__(self, images):
        x = nn.relu(self.dropout2d(self.conv(images.transpose(0, 2, 3, 1))))
        x = self.drop(x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1))
        x = self.drop(nn.relu(self.hidden(x)))
        return self.head(self.dropout_2(x))


class Mixed(nn.Module):
    training: bool = False

    def setup(self):
        self.layer = nn.Dense(4, **torch_init(fan_in=4))

    def __call__(self, x, rate):
        x = apply_dropout(
            self.make_rng("dropout") if self.training else None, self.layer(x), rate, self.training
        )
        return apply_dropout(self.make_rng("sample"), x, 0.2)


@jax.jit
def eval_step_net(params, *inputs):
    return net.apply({"params": params}, *inputs)


net = Net(8, 0.3)
mixed = Mixed()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
net_params = net.init(subkey, jnp.zeros((4, 1, 8, 8)))["params"]
key, subkey, subkey2 = jax.random.split(key, 3)
mixed_params = mixed.init(
    {"params": subkey, "sample": subkey2}, eval_step_net(net_params, jnp.zeros((4, 1, 8, 8))), 0.5
)["params"]
optimizer = optax.sgd(0.01)
opt_state = optimizer.init((net_params, mixed_params))
key, subkey, subkey2 = jax.random.split(key, 3)
images, labels = jax.random.normal(subkey, (4, 1, 8, 8)), jax.random.randint(subkey2, (4,), 0, 4)


@jax.jit(donate_argnames=("net_params", "mixed_params", "opt_state"))
def train_step(net_params, mixed_params, opt_state, images, labels, key):
    keys = jax.random.split(key, 3)

    def loss_fn(net_params, mixed_params):
        loss = cross_entropy(
            mixed.clone(training=True).apply(
                {"params": mixed_params},
                net.clone(training=True).apply(
                    {"params": net_params}, images, rngs={"dropout": keys[0]}
                ),
                0.5,
                rngs={"dropout": keys[1], "sample": keys[2]},
            ),
            labels,
        )
        return loss

    loss, (net_grads, mixed_grads) = jax.value_and_grad(loss_fn, argnums=(0, 1))(
        net_params, mixed_params
    )
    updates, opt_state = optimizer.update(
        (net_grads, mixed_grads), opt_state, (net_params, mixed_params)
    )
    net_params, mixed_params = optax.apply_updates((net_params, mixed_params), updates)
    return net_params, mixed_params, opt_state, {"loss": loss}


for step in range(5):
    key, subkey = jax.random.split(key)
    net_params, mixed_params, opt_state, metrics = train_step(
        net_params, mixed_params, opt_state, images, labels, subkey
    )
    loss = metrics["loss"]
    print(step, loss.item(), eval_step_net(net_params, images).argmax(axis=1))
