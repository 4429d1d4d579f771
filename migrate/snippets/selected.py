import jax.numpy as jnp


def selected(scores, labels, index):
    """`scores[index]` and `labels[index]` for a cross entropy.

    How many a mask selects depends on the data, which jit cannot follow: those left out have a label to ignore.
    """
    if index.dtype != bool:
        return scores[index], labels[index]
    if index.ndim != labels.ndim:
        raise ValueError(f"a mask of {index.ndim} axes for labels of {labels.ndim}")
    return scores.reshape(-1, scores.shape[-1]), jnp.where(index, labels, -100).reshape(-1)
