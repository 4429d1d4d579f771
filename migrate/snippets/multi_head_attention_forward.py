import flax.linen as nn
import jax.numpy as jnp


def multi_head_attention_forward(
    query, key, value, heads, in_weights, in_bias, out_weight, out_bias, mask=None, padding=None, average=True
):
    """torch's attention of sequences with time first and weights (out, in): (output, weights).

    `in_weights` are those of queries, keys and values. A True in a boolean mask forbids; any other mask is added.
    """
    length, batch, width = query.shape
    biases = [0, 0, 0] if in_bias is None else jnp.split(in_bias, 3)
    q, k, v = (
        (x @ weight.T + bias).reshape(len(x), batch, heads, -1).transpose(1, 2, 0, 3)
        for x, weight, bias in zip((query, key, value), in_weights, biases, strict=True)
    )
    scores = q * q.shape[-1] ** -0.5 @ k.swapaxes(-2, -1)
    if mask is not None and mask.ndim == 3:  # one for each head of each example
        mask = mask.reshape(scores.shape)
    if padding is not None:
        padding = padding[:, None, None]
    for each in (mask, padding):
        if each is not None:
            scores = jnp.where(each, -jnp.inf, scores) if each.dtype == bool else scores + each
    weights = nn.softmax(scores)
    output = (weights @ v).transpose(2, 0, 1, 3).reshape(length, batch, width) @ out_weight.T
    output = output if out_bias is None else output + out_bias
    return output, weights.mean(1) if average else weights
