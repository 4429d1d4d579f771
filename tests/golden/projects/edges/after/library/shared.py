import flax.linen as nn
import jax
import jax.numpy as jnp

SCALE = 0.5


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


frozen = nn.Sequential([nn.Dense(6, **torch_init(fan_in=6))])
key = jax.random.key(0)
key, subkey = jax.random.split(key)
frozen_params = frozen.init(subkey, jnp.zeros((1, 6)))["params"]
