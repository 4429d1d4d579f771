"""Yardstick for samples/mnist_cnn: the same network, batch and update, as one writes them in Flax to begin with."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

BATCH_SIZE = 64


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, training: bool = False):
        x = nn.relu(nn.Conv(16, (3, 3), padding="VALID")(x))
        x = nn.relu(nn.Conv(32, (3, 3), padding="VALID")(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.Dropout(0.25, deterministic=not training)(x)
        x = x.reshape((x.shape[0], -1))
        x = nn.relu(nn.Dense(64)(x))
        x = nn.Dropout(0.5, deterministic=not training)(x)
        return nn.log_softmax(nn.Dense(10)(x))


model = Net()
optimizer = optax.adadelta(learning_rate=1.0, rho=0.9, eps=1e-6)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt_state, data, target, key):
    def loss_fn(params):
        log_probabilities = model.apply({"params": params}, data, training=True, rngs={"dropout": key})
        return -jnp.take_along_axis(log_probabilities, target[:, None], axis=1).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss}


def main():
    random = np.random.default_rng(0)
    key = jax.random.key(0)
    params = model.init(key, jnp.zeros((1, 16, 16, 1)))["params"]
    opt_state = optimizer.init(params)
    data = jnp.asarray(random.normal(size=(8, BATCH_SIZE, 16, 16, 1)), jnp.float32)
    target = jnp.asarray(random.integers(10, size=(8, BATCH_SIZE)), jnp.int32)
    for step in range(100_000):
        key, step_key = jax.random.split(key)
        params, opt_state, metrics = train_step(params, opt_state, data[step % 8], target[step % 8], step_key)
        metrics["loss"].item()


if __name__ == "__main__":
    main()
