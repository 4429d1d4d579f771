import flax.linen as nn
import jax
import jax.numpy as jnp


class BatchNormWithoutStatistics(nn.Module):
    """Batch normalisation by the statistics of the batch, in both modes (torch's track_running_stats=False)."""

    epsilon: float = 1e-5
    affine: bool = True
    axis: int = -1
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        x = jnp.moveaxis(x, self.axis, -1)
        features, others = x.shape[-1], tuple(range(x.ndim - 1))
        y = (x - x.mean(others)) * jax.lax.rsqrt(x.var(others) + self.epsilon)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)) + self.param("bias", self.bias_init, (features,))
        return jnp.moveaxis(y, -1, self.axis)
