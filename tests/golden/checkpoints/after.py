import argparse
import os
import shutil
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--epochs", default=4, type=int)


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
        self.fc = nn.Dense(3, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.fc(x)


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    Path(filename).write_bytes(serialization.to_bytes(state))
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, x, y):
    def loss_fn(params):
        output = model.apply({"params": params}, x)
        loss = cross_entropy(output, y)
        return loss, output

    (loss, output), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "output": output}


def main():
    args = parser.parse_args()
    key = jax.random.key(0)
    model = Net()
    key, subkey = jax.random.split(key)
    params = model.init(subkey, jnp.zeros((64, 4)))["params"]
    optimizer = optax.inject_hyperparams(
        lambda learning_rate: optax.sgd(learning_rate, momentum=0.9)
    )(learning_rate=0.1)
    opt_state = optimizer.init(params)
    scheduler = optax.exponential_decay(0.1, transition_steps=2, decay_rate=0.1, staircase=True)
    scheduler_steps = 0
    start_epoch, best = 0, 0.0
    if args.resume:
        if os.path.isfile(args.resume):
            print(f"=> loading checkpoint '{args.resume}'")
            checkpoint = serialization.msgpack_restore(Path(args.resume).read_bytes())
            start_epoch = checkpoint["epoch"]
            best = checkpoint["best"]
            params = serialization.from_state_dict(params, checkpoint["state_dict"])
            opt_state = serialization.from_state_dict(opt_state, checkpoint["optimizer"])
            scheduler_steps = checkpoint["scheduler"]
        else:
            print(f"=> no checkpoint found at '{args.resume}'")
    key, subkey, subkey2 = jax.random.split(key, 3)
    x, y = jax.random.normal(subkey, (64, 4)), jax.random.randint(subkey2, (64,), 0, 3)
    for epoch in range(start_epoch, args.epochs):
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, x, y)
        loss = metrics["loss"]
        output = metrics["output"]
        scheduler_steps += 1
        opt_state = optax.tree_utils.tree_set(
            opt_state, learning_rate=np.asarray(scheduler(scheduler_steps))
        )
        acc = (output.argmax(axis=1) == y).astype(jnp.float32).mean().item()
        is_best = acc > best
        best = max(acc, best)
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "state_dict": params,
                "best": best,
                "optimizer": opt_state,
                "scheduler": scheduler_steps,
            },
            is_best,
        )
        print(epoch, loss.item(), acc)


if __name__ == "__main__":
    main()
