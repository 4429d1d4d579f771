import jax
import jax.numpy as jnp


def scaled_dot_product_attention(
    query, key, value, mask=None, is_causal=False, scale=None, dropout_rate=0.0, dropout_key=None
):
    """Attention over (..., length, width). A boolean mask says what may be attended to; any other is added."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.swapaxes(-2, -1) * scale
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    weights = jax.nn.softmax(scores, axis=-1, where=scores > -jnp.inf)  # 0 where nothing may be attended to
    if dropout_rate > 0:
        keep = jax.random.bernoulli(dropout_key, 1 - dropout_rate, weights.shape)
        weights = jnp.where(keep, weights / (1 - dropout_rate), 0)
    return weights @ value
