"""Buffers, tied weights, initialisation by apply, a module list, random draws in a method."""
import math

import flax.linen as nn
import jax
import jax.numpy as jnp


class Attention(nn.Module):
    width: int
    heads: int
    context: int

    def setup(self):
        self.qkv = nn.Dense(3 * self.width, use_bias=False, kernel_init=nn.initializers.normal(0.02))
        self.mask = jnp.tril(jnp.ones((self.context, self.context)))

    def __call__(self, x):
        B, T, C = x.shape
        q, k, v = [
            y.reshape(B, T, self.heads, C // self.heads).swapaxes(1, 2) for y in jnp.split(self.qkv(x), 3, axis=-1)
        ]
        scores = q @ k.swapaxes(-2, -1) / math.sqrt(k.shape[-1])
        scores = jnp.where(self.mask[:T, :T] == 0, -1e9, scores)
        return (nn.softmax(scores, axis=-1) @ v).swapaxes(1, 2).reshape(B, T, C)


def multinomial(key, probs, num_samples):
    """Draws indices with probability proportional to each row of `probs`, on a new last axis."""
    shape = (num_samples, *probs.shape[:-1])
    return jnp.moveaxis(jax.random.categorical(key, jnp.log(probs), shape=shape), 0, -1)


class Model(nn.Module):
    vocabulary: int
    width: int = 32
    layers: int = 2
    dropout: float = 0.1
    training: bool = False

    def setup(self):
        self.embedding = nn.Embed(self.vocabulary, self.width, embedding_init=nn.initializers.normal(0.02))
        self.position = self.param("position", nn.initializers.zeros, (1, 16, self.width))
        layers_list = []
        for _ in range(self.layers):
            layers_list.append(Attention(self.width, 4, 16))
        self.dropout_layer = nn.Dropout(self.dropout, deterministic=not self.training)
        self.layers_list = layers_list

    def __call__(self, tokens):
        x = self.embedding(tokens) + self.position[:, : tokens.shape[1]]
        for layer in self.layers_list:
            x = x + layer(x)
        return self.embedding.attend(self.dropout_layer(x))

    def sample(self, tokens, temperature=1.0):
        logits = self(tokens)[:, -1] / temperature
        return multinomial(self.make_rng("sample"), nn.softmax(logits, axis=-1), num_samples=1)
