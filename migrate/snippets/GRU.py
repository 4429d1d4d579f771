from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class GRU(nn.Module):
    """torch's GRU, by scans over time: returns (output, h), where h has a row for each layer and direction.

    The weights are torch's, transposed: gates side by side in the order r, z, n, and two biases that both learn.
    """

    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    training: bool = False
    initializers: Any = None  # by the kind of weight: {"weight_hh": ...}

    @nn.compact
    def __call__(self, x, hx=None):
        x, lengths = x if isinstance(x, tuple) else (x, None)  # a packed sequence has its time first
        time_axis = 1 if self.batch_first and x.ndim == 3 and lengths is None else 0
        x = jnp.moveaxis(x, time_axis, 0)
        inside = None if lengths is None else (jnp.arange(len(x))[:, None] < lengths)[..., None]
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        if hx is None:
            hx = jnp.zeros((self.num_layers * len(suffixes), *x.shape[1:-1], self.hidden_size), x.dtype)
        finals = []
        for layer in range(self.num_layers):
            if layer:
                x = nn.Dropout(self.dropout, deterministic=not self.training)(x)
            outputs = []
            for suffix in suffixes:
                final, y = self.scan(f"l{layer}{suffix}", x, hx[len(finals)], inside, reverse=suffix == "_reverse")
                finals.append(final)
                outputs.append(y)
            x = jnp.concatenate(outputs, axis=-1)
        x = jnp.moveaxis(x, 0, time_axis)
        return (x if lengths is None else (x, lengths)), jnp.stack(finals)

    def scan(self, name, x, h, inside, reverse):
        def weight(kind, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(f"{kind}_{name}", (self.initializers or {}).get(kind, usual), shape)

        gates = 3 * self.hidden_size
        rows = x.reshape(-1, x.shape[-1])  # one product of two matrices is XLA's fastest
        inputs = (rows @ weight("weight_ih", x.shape[-1], gates)).reshape(*x.shape[:-1], gates)
        weight_hh = weight("weight_hh", self.hidden_size, gates)
        if self.bias:
            inputs = inputs + weight("bias_ih", gates)
        bias_hh = weight("bias_hh", gates) if self.bias else 0

        def step(h, now):
            inputs, inside = now
            r, z, n = jnp.split(inputs, 3, axis=-1)
            hr, hz, hn = jnp.split(h @ weight_hh + bias_hh, 3, axis=-1)
            z = nn.sigmoid(z + hz)
            n = jnp.tanh(n + nn.sigmoid(r + hr) * hn)
            new = (1 - z) * n + z * h
            h = new if inside is None else jnp.where(inside, new, h)  # what has ended keeps its state
            return h, h

        return jax.lax.scan(step, h, (inputs, inside), reverse=reverse)
