"""In-place updates rebind names."""
import jax.numpy as jnp


def run(n: int):
    x = jnp.zeros((n, n))
    x = x.at[0].set(1.0)
    x = x.at[1:, 0].add(2)
    # x.add_(torch.ones(n, n), alpha=0.5).shape
    raise NotImplementedError("MIG303: Tensor.add_ inside an expression")
    x = jnp.clip(x, min=0.6)
    y = x
    y = y * 2
    return x, y


print(run(3))
