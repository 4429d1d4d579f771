import flax.linen as nn
import jax.numpy as jnp


class WeightNorm(nn.Module):
    """A layer whose kernel is `scale * kernel / norm`, with a norm for each place on the kernel's last axis."""

    layer: nn.Module

    @nn.compact
    def __call__(self, x):
        if self.is_initializing():
            self.layer(x)  # makes the kernel
        params = self.layer.variables["params"]
        kernel = params["kernel"]
        norm = jnp.sqrt(jnp.square(kernel).sum(tuple(range(kernel.ndim - 1)), keepdims=True))
        scale = self.param("scale", lambda key: norm)
        return self.layer.clone(parent=None).apply({"params": {**params, "kernel": kernel * (scale / norm)}}, x)
