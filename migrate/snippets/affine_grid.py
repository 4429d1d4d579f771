import jax.numpy as jnp


def affine_grid(theta, size, align_corners=False):
    """Points (batch, height, width, 2) in [-1, 1] that (batch, 2, 3) matrices move those of a regular grid to."""

    def places(n):
        return jnp.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n)

    x, y = jnp.meshgrid(places(size[3]), places(size[2]))
    return jnp.einsum("hwi,bji->bhwj", jnp.stack([x, y, jnp.ones_like(x)], axis=-1), theta)
