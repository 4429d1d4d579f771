from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


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
    width: int
    dtype: Any = None

    def setup(self):
        self.hidden = nn.Dense(self.width, **torch_init(fan_in=8), dtype=self.dtype)
        self.head = nn.Dense(3, **torch_init(fan_in=self.width), dtype=self.dtype)

    def __call__(self, x):
        return self.head(nn.relu(self.hidden(x)))


@jax.jit(static_argnames=("model", "optimizer", "use_amp"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, use_amp, params, opt_state, x, y):
    def loss_fn(params):
        output = model.clone(dtype=jnp.bfloat16 if use_amp else None).apply({"params": params}, x)
        loss = cross_entropy(output.astype(jnp.float32), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads, _ = clip_grad_norm(grads, 1.0)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train(model, params, optimizer, opt_state, x, y, use_amp):
    for step in range(10):
        params, opt_state, metrics = train_step(model, optimizer, use_amp, params, opt_state, x, y)
        loss = metrics["loss"]
        print(step, loss.item())
    return params, opt_state


key = jax.random.key(0)
model = Net(16)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((32, 8)))["params"]
use_amp = True
optimizer = optax.adamw(1e-2, weight_decay=0.01)
opt_state = optimizer.init(params)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (32, 8))
key, subkey = jax.random.split(key)
y = jax.random.randint(subkey, (32,), 0, 3)
params, opt_state = train(model, params, optimizer, opt_state, x, y, use_amp)
