from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

words = "a rose is a rose and a thorn is a thorn but a rose has more than a thorn".split()
trigrams = [([words[i - 2], words[i - 1]], words[i]) for i in range(2, len(words))]
vocab = sorted(set(words))
index_of = {"unknown": 0}
index_of = {word: i for i, word in enumerate(vocab)}
weight_of = {word: 1.0 / words.count(word) for word in vocab}


def nll_loss(log_probs, labels, ignore_index=-100, reduction="mean"):
    """Negative log-likelihood of integer labels as torch has it: classes on axis 1, `ignore_index` left out."""
    axis = min(1, log_probs.ndim - 1)
    kept = labels != ignore_index
    index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
    losses = jnp.where(kept, -jnp.take_along_axis(log_probs, index, axis).squeeze(axis), 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Trigrams(nn.Module):
    words: int
    width: int

    def setup(self):
        self.embeddings = nn.Embed(
            self.words, self.width, embedding_init=nn.initializers.normal(1.0)
        )
        self.head = nn.Dense(self.words, **torch_init(fan_in=2 * self.width))

    def __call__(self, inputs):
        embedded = self.embeddings(inputs).reshape(1, -1)
        return nn.log_softmax(self.head(embedded), axis=1)


key = jax.random.key(0)
model = Trigrams(len(vocab), 8)
key, subkey = jax.random.split(key)
example = trigrams[0]
params = model.init(subkey, jnp.array([index_of[word] for word in example[0]], dtype=jnp.int32))[
    "params"
]
criterion = partial(nll_loss, reduction="none")
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, context_array, target_array, target_array_2):
    def loss_fn(params):
        log_probs = model.apply({"params": params}, context_array)
        losses = criterion(log_probs, target_array)
        loss = (target_array_2 * losses).sum()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for epoch in range(2):
    total = 0.0
    for context, target in trigrams:
        params, opt_state, metrics = train_step(
            params,
            opt_state,
            jnp.array([index_of[word] for word in context], dtype=jnp.int32),
            jnp.asarray([index_of[target]], jnp.int32),
            jnp.array([weight_of[target]]),
        )
        loss = metrics["loss"]
        total += loss.item()
    print(epoch, total)
