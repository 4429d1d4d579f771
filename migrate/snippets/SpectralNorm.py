import flax.linen as nn
import jax
import jax.numpy as jnp


class SpectralNorm(nn.Module):
    """A layer whose kernel is divided by its largest singular value, that of a matrix with a row for each output.

    The singular vectors u and v follow the kernel by power iteration in train mode. `axis` is that of the outputs.
    """

    layer: nn.Module
    n_steps: int = 1
    epsilon: float = 1e-12
    axis: int = -1
    legacy: bool = False  # torch.nn.utils.spectral_norm: v before u, and vectors that start at random
    training: bool = False

    @nn.compact
    def __call__(self, x):
        if self.is_initializing():
            self.layer(x)  # makes the kernel
        params = self.layer.variables["params"]
        kernel = params["kernel"]
        matrix = jnp.moveaxis(kernel, (self.axis, -3 - self.axis), (0, 1)).reshape(kernel.shape[self.axis], -1)
        start = None
        if self.is_initializing():
            keys = jax.random.split(self.make_rng("params"))
            start = [self.unit(jax.random.normal(key, (n,))) for key, n in zip(keys, matrix.shape, strict=True)]
            start = self.iterated(matrix, *start, 0 if self.legacy else 15)
        u = self.variable("batch_stats", "u", lambda: start[0])
        v = self.variable("batch_stats", "v", lambda: start[1])
        if self.training and not self.is_initializing():
            u.value, v.value = self.iterated(jax.lax.stop_gradient(matrix), u.value, v.value, self.n_steps)
        sigma = u.value @ matrix @ v.value
        return self.layer.clone(parent=None).apply({"params": {**params, "kernel": kernel / sigma}}, x)

    def iterated(self, matrix, u, v, steps):
        for _ in range(steps):
            if self.legacy:
                v = self.unit(u @ matrix)
            u = self.unit(matrix @ v)
            if not self.legacy:
                v = self.unit(u @ matrix)
        return u, v

    def unit(self, x):
        return x / jnp.maximum(jnp.linalg.norm(x), self.epsilon)
