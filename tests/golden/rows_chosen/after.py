from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import serialization


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Fire(nn.Module):
    inputs: int
    squeezed: int
    outputs: int

    def setup(self):
        self.squeeze = nn.Conv(self.squeezed, (1, 1), padding="VALID", **torch_init(fan_in=self.inputs))
        self.expand = nn.Conv(self.outputs, (1, 1), padding="VALID", **torch_init(fan_in=self.squeezed))

    def __call__(self, x):
        x = nn.relu(self.squeeze(x.transpose(0, 2, 3, 1)))
        return jnp.concatenate(
            [x.transpose(0, 3, 1, 2), nn.relu(self.expand(x)).transpose(0, 3, 1, 2)], axis=1
        )


class Net(nn.Module):
    version: str = "1_0"
    training: bool = False

    def setup(self):
        if self.version == "1_0":
            self.features = nn.Sequential(
                [
                    nn.Conv(8, (3, 3), padding="VALID", **torch_init(fan_in=3 * 3 * 3)),
                    nn.relu,
                    lambda x: nn.max_pool(x, window_shape=(2, 2), strides=(2, 2)).transpose(0, 3, 1, 2),
                    Fire(8, 4, 8),
                    lambda x: nn.max_pool(
                        x.transpose(0, 2, 3, 1), window_shape=(2, 2), strides=(2, 2)
                    ).transpose(0, 3, 1, 2),
                    Fire(12, 4, 8),
                ]
            )
        else:
            self.features = nn.Sequential(
                [
                    nn.Conv(8, (3, 3), padding="VALID", **torch_init(fan_in=3 * 3 * 3)),
                    lambda x: nn.relu(x).transpose(0, 3, 1, 2),
                    Fire(8, 4, 8),
                    lambda x: nn.max_pool(
                        x.transpose(0, 2, 3, 1), window_shape=(2, 2), strides=(2, 2)
                    ).transpose(0, 3, 1, 2),
                    nn.Dropout(0.1, deterministic=not self.training),
                    Fire(12, 4, 8),
                ]
            )
        self.head = nn.Dense(10, **torch_init(fan_in=12))

    def __call__(self, x):
        return self.head(self.features(x.transpose(0, 2, 3, 1)).mean(axis=(2, 3)))


def net(version, weights=None):
    model = Net(version)
    params = None
    if weights is not None:
        params = serialization.msgpack_restore(Path(weights).read_bytes())
    return params, model
