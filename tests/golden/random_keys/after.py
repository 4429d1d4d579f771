"""Draws take keys; functions that draw are given one."""
import jax
import jax.numpy as jnp


def noise(shape, key, scale=1.0):
    return jax.random.normal(key, shape) * scale


def pair(n, key):
    key, subkey, subkey2 = jax.random.split(key, 3)
    return noise((n, 2), subkey), noise((n,), subkey2, scale=0.5)


def shuffled(x, key):
    key, subkey = jax.random.split(key)
    x = 2 * x[jax.random.permutation(subkey, len(x))]
    key, subkey = jax.random.split(key)
    x += jax.random.uniform(subkey, x.shape)
    return x


key = jax.random.key(3)
key, subkey = jax.random.split(key)
a, b = pair(4, subkey)
key, subkey, subkey2 = jax.random.split(key, 3)
print(shuffled(a, subkey).shape, jax.random.randint(subkey2, (3,), 0, 10), b)
key, subkey = jax.random.split(key)
rows = [jax.random.uniform(subkey, (2,)) for subkey in jax.random.split(subkey, 3)]
key, subkey = jax.random.split(key)
steps = [
    noise(n, subkey) + jax.random.uniform(subkey2, (n,))
    for n, (subkey, subkey2) in zip((1, 2), jax.random.split(subkey, (2, 2)))
]
sizes = [len(row) for row in rows]
key, subkey = jax.random.split(key)
print(
    [
        shuffled(jnp.zeros(n), subkey)
        for n, subkey in zip(sizes, jax.random.split(subkey, len(sizes)))
    ],
    steps,
)
