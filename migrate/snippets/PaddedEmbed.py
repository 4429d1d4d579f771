from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class PaddedEmbed(nn.Embed):
    """An embedding whose row `padding_idx`, if there is one, learns nothing from being looked up. It starts at zero,
    unless an initialiser is given."""

    padding_idx: int | None = 0
    embedding_init: Any = None

    def setup(self):
        def initial(key, shape, dtype):
            drawn = nn.initializers.normal(1.0)(key, shape, dtype)
            return drawn if self.padding_idx is None else drawn.at[self.padding_idx].set(0)

        given = self.embedding_init or initial
        self.embedding = self.param("embedding", given, (self.num_embeddings, self.features), self.param_dtype)

    def __call__(self, inputs):
        y = super().__call__(inputs)
        if self.padding_idx is None:
            return y
        padding = (inputs == self.padding_idx % self.num_embeddings)[..., None]
        return jnp.where(padding, jax.lax.stop_gradient(y), y)
