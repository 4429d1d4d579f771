import jax.numpy as jnp


def largest(x, axis, keepdims=False):
    """The largest elements along an axis: of equal ones the first, which has the gradient, as in torch.

    The gradient of `x.max` goes to what equals the result: to nothing where XLA computes x twice and rounds otherwise.
    """
    values = jnp.take_along_axis(x, x.argmax(axis, keepdims=True), axis)
    return values if keepdims else values.squeeze(axis)
