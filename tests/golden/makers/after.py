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
    hidden: int

    def setup(self):
        self.one = nn.Dense(self.hidden, **torch_init(fan_in=4))
        self.two = nn.Dense(3, **torch_init(fan_in=self.hidden))

    def __call__(self, x):
        return self.two(nn.relu(self.one(x)))


def make_model(hidden):
    model = Net(hidden)
    return model


def build(hidden, lr):
    # what one experiment needs
    model = make_model(hidden)
    optimizer = optax.sgd(lr, momentum=0.9)
    return model, optimizer


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, x, y):
    def loss_fn(params):
        loss = cross_entropy(model.apply({"params": params}, x), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train(model, params, optimizer, opt_state, loader):
    for x, y in loader:
        x, y = jnp.asarray(x), jnp.asarray(y)
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, x, y)
        loss = metrics["loss"]
    return params, opt_state, loss.item()


def main():
    torch.manual_seed(0)
    key = jax.random.key(0)
    loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randint(0, 3, (24,))), batch_size=8)
    model, optimizer = build(8, lr=0.1)
    key, subkey = jax.random.split(key)
    example = loader.collate_fn([loader.dataset[0]])
    params = model.init(subkey, jnp.asarray(example[0]))["params"]
    opt_state = optimizer.init(params)
    for epoch in range(2):
        params, opt_state, result = train(model, params, optimizer, opt_state, loader)
        print(epoch, result)


main()
