"""Yardstick for lstm.py: the same network, batch and update with Flax's own cells, by scan."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCABULARY, WIDTH, LAYERS = 256, 64, 2
BATCH_SIZE, LENGTH = 16, 32


class LanguageModel(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(VOCABULARY, WIDTH)(words)
        for _ in range(LAYERS):
            x = nn.RNN(nn.OptimizedLSTMCell(WIDTH))(x)
        return nn.Dense(VOCABULARY)(x)


model = LanguageModel()
optimizer = optax.adam(1e-3)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt_state, words):
    def loss_fn(params):
        logits = model.apply({"params": params}, words[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, words[:, 1:]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss}


def main():
    random = np.random.default_rng(0)
    batches = [jnp.asarray(random.integers(VOCABULARY, size=(BATCH_SIZE, LENGTH + 1)), jnp.int32) for _ in range(8)]
    params = model.init(jax.random.key(0), batches[0])["params"]
    opt_state = optimizer.init(params)
    for step in range(100_000):
        params, opt_state, metrics = train_step(params, opt_state, batches[step % 8])
        metrics["loss"].item()


if __name__ == "__main__":
    main()
