"""Inputs that come as one tuple; a weight that an argument asks for, filled where it is made; what numpy gives as labels."""

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Mix(nn.Module):
    width: int
    out: int
    bias: bool = False

    def setup(self):
        self.kernel = self.param(
            "kernel",
            nn.initializers.variance_scaling(1.0, "fan_avg", "normal", in_axis=1, out_axis=0),
            (self.width, self.out),
        )
        self.bias_value = None
        if self.bias:
            self.bias_value = self.param("bias_value", nn.initializers.constant(0.1), (self.out,))

    def __call__(self, x, edges):
        x = edges @ x @ self.kernel
        if self.bias_value is not None:
            x = x + self.bias_value
        return x


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


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, inputs, labels):
    def loss_fn(params):
        loss = cross_entropy(model.apply({"params": params}, *inputs), labels)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train(model, params, optimizer, opt_state, inputs, labels):
    params, opt_state, metrics = train_step(model, optimizer, params, opt_state, inputs, labels)
    loss = metrics["loss"]
    return params, opt_state, loss.item()


names, numbers = np.unique(["b", "a", "b", "c"], return_inverse=True)
labels = jnp.asarray(numbers, jnp.int32)
model = Mix(5, len(names), bias=True)
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((4, 5)), jnp.eye(4))["params"]
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)
for step in range(3):
    key, subkey = jax.random.split(key)
    params, opt_state, result = train(
        model, params, optimizer, opt_state, (jax.random.normal(subkey, (4, 5)), jnp.eye(4)), labels
    )
    print(result)
