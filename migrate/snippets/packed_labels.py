import jax.numpy as jnp


def packed_labels(outputs, labels, ignore_index=-100):
    """The outputs and labels of two packed sequences as rows, `ignore_index` behind the end of each sequence."""
    (outputs, lengths), (labels, _) = outputs, labels
    steps = min(len(outputs), len(labels))  # the padded arrays need not be equally long
    inside = jnp.arange(steps)[:, None] < lengths
    labels = jnp.where(inside, labels[:steps], ignore_index)
    return outputs[:steps].reshape(-1, outputs.shape[-1]), labels.reshape(-1)
