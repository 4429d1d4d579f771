import flax.linen as nn
import jax
import jax.numpy as jnp


class InstanceNorm(nn.Module):
    """Instance normalisation that keeps torch's running statistics, and goes by them in eval mode; channels last.

    Those stay as they are where momentum is None.
    """

    use_running_average: bool
    momentum: float | None = 0.1
    epsilon: float = 1e-5
    affine: bool = False
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        features, inner = x.shape[-1], tuple(range(1, x.ndim - 1))
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, features)
        running_var = self.variable("batch_stats", "var", jnp.ones, features)
        if self.use_running_average:
            mean, var = running_mean.value, running_var.value
        else:
            mean, var = x.mean(inner, keepdims=True), x.var(inner, keepdims=True)
            if not self.is_initializing():
                n = x[0, ..., 0].size
                m = self.momentum or 0.0
                of_all = [jax.lax.stop_gradient(each).reshape(-1, features).mean(0) for each in (mean, var)]
                running_mean.value = (1 - m) * running_mean.value + m * of_all[0]
                running_var.value = (1 - m) * running_var.value + m * of_all[1] * n / (n - 1)
        y = (x - mean) * jax.lax.rsqrt(var + self.epsilon)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)) + self.param("bias", self.bias_init, (features,))
        return y
