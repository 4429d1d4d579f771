import flax.linen as nn
import jax.numpy as jnp

from migrate.snippets.MultiheadAttention import MultiheadAttention


class MultiheadAttentionWithMoreKeys(MultiheadAttention):
    """torch's attention with a learnt key and value, or with ones of zeros, behind those that it is given."""

    add_bias_kv: bool = False
    add_zero_attn: bool = False

    def __call__(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, **options):
        more = self.add_bias_kv + self.add_zero_attn
        key_padding_mask, attn_mask = (
            None if mask is None else jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, more)])
            for mask in (key_padding_mask, attn_mask)
        )
        return super().__call__(query, key, value, key_padding_mask, need_weights, attn_mask, **options)

    def project(self, query, key, value):
        query, *pair = super().project(query, key, value)
        if self.add_bias_kv:
            init, shape = nn.initializers.normal(self.embed_dim**-0.5), (1, 1, self.embed_dim)
            learnt = [self.param(f"bias_{name}", init, shape) for name in "kv"]
            pair = [jnp.concatenate([x, jnp.repeat(b, len(x), 0)], 1) for x, b in zip(pair, learnt, strict=True)]
        if self.add_zero_attn:
            pair = [jnp.pad(x, ((0, 0), (0, 1), (0, 0))) for x in pair]
        return [query, *pair]
