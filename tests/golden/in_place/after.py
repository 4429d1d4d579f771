"""In-place updates rebind names."""
import jax.numpy as jnp


def run(n: int):
    x = jnp.zeros((n, n))
    x = x.at[0].set(1.0)
    x = x.at[1:, 0].add(2)
    x = x + 0.5 * jnp.ones((n, n))
    x.shape
    x = jnp.clip(x, min=0.6)
    y = x
    y = y * 2
    return x, y


def halved(x, times):
    x = x / times
    x = x * 0.5
    return x


def halve_twice(n):
    x = jnp.ones(n)
    x = halved(x, 2.0)
    return halved(jnp.exp(x), 3.0)


print(run(3), halve_twice(2))
