from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class LSTMCell(nn.Module):
    """One step of torch's LSTM: returns (h, c). Weights transposed, gates in the order i, f, g, o, two biases."""

    hidden_size: int
    bias: bool = True
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        def weight(name, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(name, (self.initializers or {}).get(name, usual), shape)

        h, c = (jnp.zeros((*x.shape[:-1], self.hidden_size), x.dtype),) * 2 if hx is None else hx
        width = 4 * self.hidden_size
        gates = x @ weight("weight_ih", x.shape[-1], width) + h @ weight("weight_hh", self.hidden_size, width)
        if self.bias:
            gates = gates + weight("bias_ih", width) + weight("bias_hh", width)
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return nn.sigmoid(o) * jnp.tanh(c), c
