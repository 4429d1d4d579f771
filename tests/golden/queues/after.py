"""Batches from a queue that is empty when the model is made, and a loss that reads the learning rate."""

from collections import deque

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, xs, ys):
    def loss_fn(params):
        loss = ((model.apply({"params": params}, xs) - ys) ** 2).mean() + optax.tree_utils.tree_get(
            opt_state, "learning_rate"
        ) * jnp.square(params["kernel"].T).sum()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train(model, params, optimizer, opt_state, memory):
    xs = jnp.concatenate([entry[0] for entry in memory])
    ys = jnp.concatenate([entry[1] for entry in memory])
    params, opt_state, metrics = train_step(model, optimizer, params, opt_state, xs, ys)
    loss = metrics["loss"]
    return params, opt_state, loss.item()


key = jax.random.key(0)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Dense(1, **torch_init(fan_in=3))
optimizer = optax.inject_hyperparams(lambda learning_rate: optax.sgd(learning_rate))(learning_rate=0.1)
scheduler = optax.exponential_decay(0.1, transition_steps=2, decay_rate=0.1, staircase=True)
scheduler_steps = 0
memory = deque(maxlen=5)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((1, 3)))["params"]
opt_state = optimizer.init(params)
for step in range(8):
    key, subkey = jax.random.split(key)
    x = jax.random.normal(subkey, (4, 3))
    memory.append((x, x.sum(axis=1, keepdims=True)))
    params, opt_state, result = train(model, params, optimizer, opt_state, memory)
    print(step, result, memory[0][0].std(ddof=1).item())
    scheduler_steps += 1
    opt_state = optax.tree_utils.tree_set(
        opt_state, learning_rate=np.asarray(scheduler(scheduler_steps))
    )
