import flax.linen as nn
import jax
import jax.numpy as jnp


class PaddedEmbed(nn.Embed):
    """An embedding whose row `padding_idx` starts at zero and learns nothing from being looked up."""

    padding_idx: int = 0

    def setup(self):
        def initial(key, shape, dtype):
            return self.embedding_init(key, shape, dtype).at[self.padding_idx].set(0)

        self.embedding = self.param("embedding", initial, (self.num_embeddings, self.features), self.param_dtype)

    def __call__(self, inputs):
        y = super().__call__(inputs)
        padding = (inputs == self.padding_idx % self.num_embeddings)[..., None]
        return jnp.where(padding, jax.lax.stop_gradient(y), y)
