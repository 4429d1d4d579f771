"""Trains a small classifier; everything but the loop lives in other files."""

import argparse

import jax
import jax.numpy as jnp
import optax

import engine
from config import BATCH_SIZE, CLASSES
from data import Blobs
from nets import *
from tools.seeding import seed_everything
from torch.utils.data import DataLoader


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    seed_everything(1)
    key = jax.random.key(1)
    loader = DataLoader(Blobs(96, CLASSES), batch_size=BATCH_SIZE, shuffle=True)
    model = Classifier(CLASSES)
    key, subkey = jax.random.split(key)
    example = loader.collate_fn([loader.dataset[0]])
    variables = model.init(subkey, jnp.asarray(example[0]))
    params, batch_stats = variables["params"], variables["batch_stats"]
    optimizer = optax.sgd(args.lr, momentum=0.9)
    opt_state = optimizer.init(params)
    criterion = cross_entropy
    for epoch in range(args.epochs):
        key, subkey = jax.random.split(key)
        params, batch_stats, opt_state, loss = engine.train_one_epoch(
            model, params, batch_stats, loader, criterion, optimizer, opt_state, subkey
        )
        accuracy = engine.evaluate(model, params, batch_stats, loader)
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
