import flax.linen as nn
import jax
import jax.numpy as jnp


class CumulativeBatchNorm(nn.Module):
    """Batch normalisation whose running statistics are plain averages over all batches (torch's momentum=None)."""

    use_running_average: bool
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = -1
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        x = jnp.moveaxis(x, self.axis, -1)
        features, others = x.shape[-1], tuple(range(x.ndim - 1))
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, features)
        running_var = self.variable("batch_stats", "var", jnp.ones, features)
        count = self.variable("batch_stats", "count", jnp.zeros, (), jnp.int32)
        if self.use_running_average:
            mean, var = running_mean.value, running_var.value
        else:
            mean, var = x.mean(others), x.var(others)
            if not self.is_initializing():
                n = x.size // features
                count.value = count.value + 1
                running_mean.value += (jax.lax.stop_gradient(mean) - running_mean.value) / count.value
                running_var.value += (jax.lax.stop_gradient(var) * n / (n - 1) - running_var.value) / count.value
        y = (x - mean) * jax.lax.rsqrt(var + self.epsilon)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)) + self.param("bias", self.bias_init, (features,))
        return jnp.moveaxis(y, -1, self.axis)
