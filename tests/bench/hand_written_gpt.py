"""Yardstick for samples/char_gpt: the same network, batches and update, as one writes them in Flax to begin with.

Both micro batches go through one jitted step, where a scan accumulates the gradients.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH = 83, 48, 2, 4, 64
MICRO_BATCHES, BATCH_SIZE = 2, 8
DROPOUT = 0.1

dense = partial(nn.Dense, kernel_init=nn.initializers.normal(0.02))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, training: bool):
        dropout = nn.Dropout(DROPOUT, deterministic=not training)
        batch, length, width = x.shape

        qkv = dense(3 * width)(nn.LayerNorm(epsilon=1e-5)(x))
        q, k, v = jnp.split(qkv.reshape(batch, length, 3 * HEADS, width // HEADS), 3, axis=2)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(width // HEADS)
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = dropout(nn.softmax(jnp.where(causal, scores, -jnp.inf)))
        attended = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, width)
        x = x + dropout(dense(width)(attended))

        hidden = nn.gelu(dense(4 * width)(nn.LayerNorm(epsilon=1e-5)(x)), approximate=False)
        return x + dropout(dense(width)(hidden))


class GPT(nn.Module):
    @nn.compact
    def __call__(self, tokens, training: bool = False):
        embed = partial(nn.Embed, features=WIDTH, embedding_init=nn.initializers.normal(0.02))
        token_embedding = embed(VOCABULARY)
        x = token_embedding(tokens) + embed(CONTEXT)(jnp.arange(tokens.shape[1]))
        x = nn.Dropout(DROPOUT, deterministic=not training)(x)
        for _ in range(LAYERS):
            x = Block()(x, training)
        return token_embedding.attend(nn.LayerNorm(epsilon=1e-5)(x))


model = GPT()
schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 20, 240, 3e-4)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(
        schedule, b1=0.9, b2=0.95, weight_decay=0.1, mask=lambda params: jax.tree.map(lambda p: p.ndim >= 2, params)
    ),
)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt_state, tokens, targets, key):
    def loss_fn(params, tokens, targets, key):
        logits = model.apply({"params": params}, tokens, training=True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean() / MICRO_BATCHES

    def accumulate(carry, micro_batch):
        total, grads = carry
        loss, new = jax.value_and_grad(loss_fn)(params, *micro_batch)
        return (total + loss, jax.tree.map(jnp.add, grads, new)), None

    start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    keys = jax.random.split(key, MICRO_BATCHES)
    (loss, grads), _ = jax.lax.scan(accumulate, start, (tokens, targets, keys))
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss}


def main():
    random = np.random.default_rng(0)
    key = jax.random.key(0)
    params = model.init(key, jnp.zeros((1, CONTEXT), jnp.int32))["params"]
    opt_state = optimizer.init(params)
    for _ in range(100_000):
        key, step_key = jax.random.split(key)
        text = random.integers(VOCABULARY, size=(MICRO_BATCHES, BATCH_SIZE, CONTEXT + 1), dtype=np.int32)
        tokens, targets = jnp.asarray(text[..., :-1]), jnp.asarray(text[..., 1:])
        params, opt_state, metrics = train_step(params, opt_state, tokens, targets, step_key)
        metrics["loss"].item()


if __name__ == "__main__":
    main()
