import jax.numpy as jnp


def smallest(x, axis, keepdims=False):
    """The smallest elements along an axis: of equal ones the first, which has the gradient, as in torch.

    The gradient of `x.min` goes to what equals the result: to nothing where XLA computes x twice and rounds otherwise.
    """
    values = jnp.take_along_axis(x, x.argmin(axis, keepdims=True), axis)
    return values if keepdims else values.squeeze(axis)
