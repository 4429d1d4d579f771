from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class GRUCell(nn.Module):
    """One step of torch's GRU: returns h. Weights transposed, gates in the order r, z, n, two biases."""

    hidden_size: int
    bias: bool = True
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        def weight(name, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(name, (self.initializers or {}).get(name, usual), shape)

        h = jnp.zeros((*x.shape[:-1], self.hidden_size), x.dtype) if hx is None else hx
        width = 3 * self.hidden_size
        inputs = x @ weight("weight_ih", x.shape[-1], width)
        hidden = h @ weight("weight_hh", self.hidden_size, width)
        if self.bias:
            inputs, hidden = inputs + weight("bias_ih", width), hidden + weight("bias_hh", width)
        r, z, n = jnp.split(inputs, 3, axis=-1)
        hr, hz, hn = jnp.split(hidden, 3, axis=-1)
        z = nn.sigmoid(z + hz)
        n = jnp.tanh(n + nn.sigmoid(r + hr) * hn)
        return (1 - z) * n + z * h
