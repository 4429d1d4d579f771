import flax.linen as nn
import jax.numpy as jnp


def cosine_embedding_loss(a, b, targets, margin=0.0):
    """1 - cosine where the target is 1, else the cosine above the margin; norms as torch has them here."""
    squares = [jnp.square(x).sum(-1) + 1e-12 for x in (a, b)]
    cosine = (a * b).sum(-1) / jnp.sqrt(squares[0] * squares[1])
    return jnp.where(targets == 1, 1 - cosine, nn.relu(cosine - margin))
