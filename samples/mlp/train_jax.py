"""A multilayer perceptron on scikit-learn's 8x8 handwritten digits."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

SEED = 0
NUM_TRAIN = 1400
BATCH_SIZE = 64
NUM_EPOCHS = 12
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-2


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


class MLP(nn.Module):
    in_features: Any
    hidden_sizes: Sequence[int]
    num_classes: int
    dropout: float = 0.1
    training: bool = False

    def setup(self):
        layers = []
        prev = self.in_features
        for size in self.hidden_sizes:
            layers.append(nn.Dense(size, **torch_init(fan_in=prev)))
            layers.append(nn.relu)
            layers.append(nn.Dropout(self.dropout, deterministic=not self.training))
            prev = size
        layers.append(nn.Dense(self.num_classes, **torch_init(fan_in=prev)))
        self.net = nn.Sequential(layers)

    def __call__(self, x):
        return self.net(x)


@jax.jit(static_argnames=("model", "optimizer", "criterion"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, criterion, params, opt_state, xb, yb, key):
    def loss_fn(params):
        logits = model.clone(training=True).apply({"params": params}, xb, rngs={"dropout": key})
        loss = criterion(logits, yb)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def main():
    key = jax.random.key(SEED)

    digits = load_digits()
    X = jnp.array(digits.data / 16.0, dtype=jnp.float32)
    y = jnp.array(digits.target, dtype=jnp.int32)
    X_train, y_train = X[:NUM_TRAIN], y[:NUM_TRAIN]
    X_test, y_test = X[NUM_TRAIN:], y[NUM_TRAIN:]

    model = MLP(X.shape[1], (128, 64), 10)
    key, subkey = jax.random.split(key)
    params = model.init(subkey, X_train[:1])["params"]
    criterion = cross_entropy
    optimizer = optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    opt_state = optimizer.init(params)

    for epoch in range(NUM_EPOCHS):
        total_loss = 0.0
        key, subkey = jax.random.split(key)
        perm = jax.random.permutation(subkey, NUM_TRAIN)
        for i in range(0, NUM_TRAIN, BATCH_SIZE):
            idx = perm[i : i + BATCH_SIZE]
            xb, yb = X_train[idx], y_train[idx]

            key, subkey = jax.random.split(key)
            params, opt_state, metrics = train_step(
                model, optimizer, criterion, params, opt_state, xb, yb, subkey
            )
            loss = metrics["loss"]

            total_loss += loss.item() * len(idx)

        # accuracy on the held-out digits
        pred = eval_step(model, params, X_test).argmax(axis=1)
        accuracy = (pred == y_test).astype(jnp.float32).mean().item()
        print(f"epoch {epoch + 1:2d}  loss {total_loss / NUM_TRAIN:.4f}  test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
