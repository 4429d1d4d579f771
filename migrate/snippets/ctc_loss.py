import jax
import jax.numpy as jnp
import optax


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification; as in torch the mean is over the losses divided by their target lengths.

    `log_probs` have the axes time, batch and class; `targets` a row for each sequence, or all of them end to end.
    """
    alone = log_probs.ndim == 2
    if alone:
        log_probs = log_probs[:, None]
    input_lengths, lengths = (jnp.atleast_1d(jnp.asarray(x)) for x in (input_lengths, target_lengths))
    if targets.ndim == 1:
        steps = jnp.arange(max(1, min(targets.size, log_probs.shape[0])))
        targets = jnp.take(targets, (jnp.cumsum(lengths) - lengths)[:, None] + steps, mode="clip")
    steps = jnp.arange(targets.shape[1])
    padded = steps >= lengths[:, None]
    late = jnp.arange(log_probs.shape[0])[:, None] >= input_lengths
    paddings = late.T.astype(log_probs.dtype), padded.astype(log_probs.dtype)
    losses = optax.ctc_loss(log_probs.swapaxes(0, 1), paddings[0], targets, paddings[1], blank_id=blank)
    # optax normalises what it is given; torch takes it as it is, with the gradient of a softmax before it
    totals = jnp.where(late, 0, jnp.exp(log_probs).sum(axis=2)).sum(axis=0)
    norms = jnp.where(late, 0, jax.nn.logsumexp(log_probs, axis=2)).sum(axis=0)
    losses = losses - norms + totals - jax.lax.stop_gradient(totals)
    repeats = ((targets[:, 1:] == targets[:, :-1]) & ~padded[:, 1:]).sum(axis=1)
    losses = jnp.where(lengths + repeats > input_lengths, 0.0 if zero_infinity else jnp.inf, losses)
    if reduction == "mean":
        return (losses / jnp.maximum(lengths, 1)).mean()
    return losses.sum() if reduction == "sum" else losses[0] if alone else losses
