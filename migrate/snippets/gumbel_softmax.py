import jax


def gumbel_softmax(key, logits, tau=1.0, hard=False, axis=-1):
    """Softmax of logits with Gumbel noise; with `hard` one-hot, with the gradient of the soft sample."""
    soft = jax.nn.softmax((logits + jax.random.gumbel(key, logits.shape, logits.dtype)) / tau, axis)
    if not hard:
        return soft
    chosen = jax.nn.one_hot(soft.argmax(axis), logits.shape[axis], axis=axis, dtype=soft.dtype)
    return soft + jax.lax.stop_gradient(chosen - soft)
