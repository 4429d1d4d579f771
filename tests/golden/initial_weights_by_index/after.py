"""Layers of a list that a constructor gives initial weights by their index."""
import flax.linen as nn
import jax
import jax.numpy as jnp


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Model(nn.Module):
    width: int
    depth: int

    def setup(self):
        self.layers = [
            nn.Dense(
                self.width, kernel_init=nn.initializers.variance_scaling(1.0, "fan_avg", "normal")
            )
            for _ in range(self.depth)
        ]
        self.gates = [
            nn.Dense(
                self.width,
                **torch_init(fan_in=self.width, kernel_init=nn.initializers.normal(0.02))
            )
            for _ in range(self.depth)
        ]

    def __call__(self, x):
        for layer, gate in zip(self.layers, self.gates):
            x = jnp.tanh(layer(x)) * nn.sigmoid(gate(x))
        return x
