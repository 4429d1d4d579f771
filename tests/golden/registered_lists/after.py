from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Attention(nn.Module):
    width: Any
    hidden: Any

    def setup(self):
        self.W = self.param(
            "W",
            nn.initializers.variance_scaling(1.414**2, "fan_avg", "uniform", in_axis=1, out_axis=0),
            (self.width, self.hidden),
        )

    def __call__(self, x):
        h = x @ self.W
        return nn.elu(nn.softmax(h @ h.T, axis=1) @ h)


class GAT(nn.Module):
    width: Any
    hidden: Any
    classes: Any
    heads: int

    def setup(self):
        self.attentions = [Attention(self.width, self.hidden) for _ in range(self.heads)]
        self.out = Attention(self.hidden * self.heads, self.classes)

    def __call__(self, x):
        x = jnp.concatenate([attention(x) for attention in self.attentions], axis=1)
        return nn.log_softmax(self.out(x), axis=1)


class Shifted(nn.Module):
    def setup(self):
        self.layers = nn.Sequential([
            partial(jnp.pad, pad_width=((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=0),
            lambda x: jax.lax.pad(x, jnp.asarray(0, x.dtype), ((0, 0, 0), (-1, 0, 0), (-1, 0, 0), (0, 0, 0))),
            partial(nn.avg_pool, window_shape=(1, 1), strides=(2, 2)),
        ])

    def __call__(self, x):
        return self.layers(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


# half a stride to the side
shifted = Shifted()
print(shifted.apply({}, jnp.arange(16.0).reshape(1, 1, 4, 4)))

model = GAT(8, 4, 3, heads=2)
key = jax.random.key(0)
key, subkey = jax.random.split(key)
model_params = model.init(subkey, jnp.zeros((10, 8)))["params"]
optimizer = optax.adam(0.01)
opt_state = optimizer.init(model_params)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (10, 8))
key, subkey = jax.random.split(key)
y = jax.random.randint(subkey, (10,), 0, 3)


def nll_loss(log_probs, labels, ignore_index=-100, reduction="mean"):
    """Negative log-likelihood of integer labels as torch has it: classes on axis 1, `ignore_index` left out."""
    axis = min(1, log_probs.ndim - 1)
    kept = labels != ignore_index
    index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
    losses = jnp.where(kept, -jnp.take_along_axis(log_probs, index, axis).squeeze(axis), 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


@jax.jit(donate_argnames=("model_params", "opt_state"))
def train_step(model_params, opt_state, x, y):
    def loss_fn(model_params):
        loss = nll_loss(model.apply({"params": model_params}, x), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(model_params)
    updates, opt_state = optimizer.update(grads, opt_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, opt_state, {"loss": loss}


for epoch in range(3):
    model_params, opt_state, metrics = train_step(model_params, opt_state, x, y)
    loss = metrics["loss"]
    print(loss.item())
