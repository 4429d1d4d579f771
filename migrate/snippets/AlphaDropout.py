import flax.linen as nn
import jax
import jax.numpy as jnp


class AlphaDropout(nn.Module):
    """Dropout that keeps mean and variance behind SELU; of whole channels (axis 1) if `by_channel`."""

    rate: float = 0.5
    by_channel: bool = False
    training: bool = False

    def __call__(self, x):
        if not self.training or self.rate == 0:
            return x
        shape = (*x.shape[:2], *[1] * (x.ndim - 2)) if self.by_channel else x.shape
        keep = jax.random.bernoulli(self.make_rng("dropout"), 1 - self.rate, shape)
        saturated = -1.7580993408473766  # what SELU tends to
        scale = ((saturated**2 * self.rate + 1) * (1 - self.rate)) ** -0.5
        return jnp.where(keep, x, saturated) * scale - scale * self.rate * saturated
