"""A file of helpers that forgot `import torch`: what needs it raises, in torch as well."""

import flax.linen as nn
import jax
import jax.numpy as jnp


def mean_of(loader):
    """Never ran."""
    # total = torch.zeros(3)
    # for images in loader:
    #     total += images.mean((0, 2, 3))
    # total.div_(len(loader))
    # return total
    raise NameError("name 'torch' is not defined")


def centred(x, mean):
    shifted = x - mean
    # if torch.is_tensor(mean):
    #     return shifted
    # return x
    raise NameError("name 'torch' is not defined")


def noisy(x, noise=None):
    """Only without noise does it fail."""

    return x if noise is None else x + jnp.zeros_like(x)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    def setup(self):
        self.fc = nn.Dense(2, **torch_init(fan_in=3))

    def __call__(self, x):
        return self.fc(x)
