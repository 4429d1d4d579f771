"""The loops, for any model."""

import jax
import jax.numpy as jnp
import optax

from tools.metrics import Mean, accuracy


@jax.jit(
    static_argnames=("model", "optimizer", "criterion"),
    donate_argnames=("params", "batch_stats", "opt_state"),
)
def train_step(model, optimizer, criterion, params, batch_stats, opt_state, inputs, targets, key):
    def loss_fn(params, batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats},
            inputs,
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        batch_stats = mutated["batch_stats"]
        loss = criterion(output, targets)
        return loss, batch_stats

    (loss, batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch_stats)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, {"loss": loss}


def train_one_epoch(model, params, batch_stats, loader, criterion, optimizer, opt_state, key):
    mean = Mean()
    for inputs, targets in loader:
        inputs, targets = jnp.asarray(inputs), jnp.asarray(targets)
        key, subkey = jax.random.split(key)
        params, batch_stats, opt_state, metrics = train_step(
            model, optimizer, criterion, params, batch_stats, opt_state, inputs, targets, subkey
        )
        loss = metrics["loss"]
        mean.add(loss.item(), len(targets))
    return params, batch_stats, opt_state, mean.value()


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


def evaluate(model, params, batch_stats, loader):
    mean = Mean()
    for inputs, targets in loader:
        inputs, targets = jnp.asarray(inputs), jnp.asarray(targets)
        mean.add(accuracy(eval_step(model, params, batch_stats, inputs), targets), len(targets))
    return mean.value()
