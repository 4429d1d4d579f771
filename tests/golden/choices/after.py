"""A layer that an argument chooses, of several that want their channels in different places."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=False, recompute_scale_factor=False):
    """Resizes the axes after the first two, as torch does: "nearest" rounds down, the others go by the centres."""
    for axis in range(2, x.ndim):
        old = x.shape[axis]
        factor = scale_factor[axis - 2] if isinstance(scale_factor, tuple | list) else scale_factor
        new = size[axis - 2] if isinstance(size, tuple | list) else size
        new = int(old * factor) if new is None else new
        step = old / new if factor is None or recompute_scale_factor else 1 / factor
        if mode.startswith("nearest"):
            centre = 0.5 if mode == "nearest-exact" else 0
            x = jnp.take(x, np.minimum(np.floor((np.arange(new) + centre) * step), old - 1).astype(int), axis)
            continue
        if align_corners:
            place = np.arange(new) * ((old - 1) / max(new - 1, 1))
        else:
            place = (np.arange(new) + 0.5) * step - 0.5
        if mode != "bicubic":
            place = np.maximum(place, 0)
        low = np.minimum(np.floor(place), old - 1).astype(int)
        t = place - low
        if mode == "bicubic":
            far = [-0.75 * (d**3 - 5 * d**2 + 8 * d - 4) for d in (1 + t, 2 - t)]
            near = [1.25 * d**3 - 2.25 * d**2 + 1 for d in (t, 1 - t)]
            shares = {-1: far[0], 0: near[0], 1: near[1], 2: far[1]}
        else:
            shares = {0: 1 - t, 1: t}
        shape = (-1, *[1] * (x.ndim - axis - 1))
        x = sum(
            jnp.take(x, np.clip(low + offset, 0, old - 1), axis) * jnp.asarray(share, x.dtype).reshape(shape)
            for offset, share in shares.items()
        )
    return x


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Up(nn.Module):
    width: int
    bilinear: bool = True

    def setup(self):
        if self.bilinear:
            self.up = lambda x: interpolate(x.transpose(0, 3, 1, 2), scale_factor=2, mode="bilinear", align_corners=True).transpose(0, 2, 3, 1)
            self.conv = nn.Conv(self.width, (1, 1), padding="VALID", **torch_init(fan_in=self.width))
        else:
            self.up = nn.ConvTranspose(self.width, (2, 2), strides=(2, 2), padding=((1, 1), (1, 1)), transpose_kernel=True, **torch_init(fan_in=self.width * 2 * 2))
            self.conv = nn.Conv(self.width, (3, 3), padding="VALID", **torch_init(fan_in=self.width * 3 * 3))

    def __call__(self, x):
        return self.conv(self.up(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
