import flax.linen as nn
import jax
import jax.numpy as jnp


class EmbeddingBag(nn.Module):
    """The mean, sum or maximum of the embeddings in each bag: a row of `x`, or what lies between two `offsets`."""

    num_embeddings: int
    features: int
    mode: str = "mean"
    padding_idx: int | None = None
    embedding_init: nn.initializers.Initializer = nn.initializers.normal(1.0)

    @nn.compact
    def __call__(self, x, offsets=None, per_sample_weights=None):
        table = self.param("embedding", self.embedding_init, (self.num_embeddings, self.features))
        if offsets is None:
            offsets, x = jnp.arange(len(x)) * x.shape[1], x.reshape(-1)
        bag = jnp.searchsorted(offsets, jnp.arange(len(x)), side="right") - 1
        kept = jnp.ones(len(x), bool)
        if self.padding_idx is not None:
            kept = x != self.padding_idx % self.num_embeddings
        rows = table[x] if per_sample_weights is None else table[x] * per_sample_weights.reshape(-1, 1)
        count = jax.ops.segment_sum(kept.astype(rows.dtype), bag, len(offsets))[:, None]
        if self.mode == "max":
            rows = jnp.where(kept[:, None], rows, -jnp.inf)
            return jnp.where(count > 0, jax.ops.segment_max(rows, bag, len(offsets)), 0)
        total = jax.ops.segment_sum(jnp.where(kept[:, None], rows, 0), bag, len(offsets))
        return total / jnp.maximum(count, 1) if self.mode == "mean" else total
