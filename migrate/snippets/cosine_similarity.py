import jax.numpy as jnp


def cosine_similarity(a, b, axis=1, eps=1e-8):
    """The cosine of the angle of two tensors along an axis; each norm counts as `eps` at least."""
    a, b = jnp.broadcast_arrays(a, b)
    norms = [jnp.sqrt(jnp.square(x).sum(axis, keepdims=True).clip(eps**2)) for x in (a, b)]
    return (a / norms[0] * (b / norms[1])).sum(axis)
