import jax
import jax.numpy as jnp


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides by the mean square of `size` neighbouring channels (axis 1), as torch weights it."""
    if not x.size:
        return x
    window = [size if axis == 1 else 1 for axis in range(x.ndim)]
    padding = [(size // 2, (size - 1) // 2) if axis == 1 else (0, 0) for axis in range(x.ndim)]
    sums = jax.lax.reduce_window(jnp.square(x), 0.0, jax.lax.add, window, [1] * x.ndim, padding)
    means = (sums / size).astype(x.dtype)  # those of integers are integers in torch
    return x / (k + alpha * means) ** beta
