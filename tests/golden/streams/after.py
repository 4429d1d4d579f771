import copy

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset


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
    def setup(self):
        self.one = nn.Dense(8, **torch_init(fan_in=4))
        self.two = nn.Dense(3, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.two(jnp.tanh(self.one(x)))


def collate(rows):
    xs, ys = zip(*rows)
    return torch.stack(xs), torch.stack(ys)


def endless(loader):
    while True:
        for batch in loader:
            yield batch


torch.manual_seed(0)
key = jax.random.key(0)
data = TensorDataset(torch.randn(24, 4), torch.randint(0, 3, (24,)))
loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)

model = Net()
key, subkey = jax.random.split(key)
model_params = model.init(subkey, jnp.asarray(next(endless(loader))[0]))["params"]
optimizer = optax.sgd(0.5)
opt_state = optimizer.init(model_params)
best, best_loss = None, float("inf")

# a stream of batches
batches = endless(loader)


@jax.jit(donate_argnames=("model_params", "opt_state"))
def train_step(model_params, opt_state, x, y):
    def loss_fn(model_params):
        loss = cross_entropy(model.apply({"params": model_params}, x), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(model_params)
    updates, opt_state = optimizer.update(grads, opt_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, opt_state, {"loss": loss}


for step in range(2):
    x, y = next(batches)
    x, y = jnp.asarray(x), jnp.asarray(y)
    model_params, opt_state, metrics = train_step(model_params, opt_state, x, y)
    loss = metrics["loss"]
    if loss.item() < best_loss:
        best = model
        best_params = jax.tree.map(jnp.copy, model_params)
        best_loss = loss.item()

# an iterator that starts again
iterator = iter(loader)
for step in range(4):
    try:
        x, y = next(iterator)
        x, y = jnp.asarray(x), jnp.asarray(y)
    except StopIteration:
        iterator = iter(loader)
        x, y = next(iterator)
        x, y = jnp.asarray(x), jnp.asarray(y)
    model_params, opt_state, metrics = train_step(model_params, opt_state, x, y)


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


print(best_loss, eval_step(best, best_params, jnp.ones((1, 4))).sum().item())
