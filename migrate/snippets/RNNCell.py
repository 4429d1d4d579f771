from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class RNNCell(nn.Module):
    """One step of torch's RNN: returns h. Weights transposed, two biases."""

    hidden_size: int
    bias: bool = True
    nonlinearity: str = "tanh"
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        def weight(name, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(name, (self.initializers or {}).get(name, usual), shape)

        h = jnp.zeros((*x.shape[:-1], self.hidden_size), x.dtype) if hx is None else hx
        y = x @ weight("weight_ih", x.shape[-1], self.hidden_size)
        y = y + h @ weight("weight_hh", self.hidden_size, self.hidden_size)
        if self.bias:
            y = y + weight("bias_ih", self.hidden_size) + weight("bias_hh", self.hidden_size)
        return {"tanh": jnp.tanh, "relu": nn.relu}[self.nonlinearity](y)
