from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class LSTM(nn.Module):
    """torch's LSTM, by scans over time: returns (output, (h, c)), h and c with a row for each layer and direction.

    The weights are torch's, transposed: gates side by side in the order i, f, g, o, and two biases that both learn.
    """

    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    proj_size: int = 0
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
            shape = (self.num_layers * len(suffixes), *x.shape[1:-1])
            h = jnp.zeros((*shape, self.proj_size or self.hidden_size), x.dtype)
            hx = (h, jnp.zeros((*shape, self.hidden_size), x.dtype))
        finals = []
        for layer in range(self.num_layers):
            if layer:
                x = nn.Dropout(self.dropout, deterministic=not self.training)(x)
            outputs = []
            for suffix in suffixes:
                state = (hx[0][len(finals)], hx[1][len(finals)])
                final, y = self.scan(f"l{layer}{suffix}", x, state, inside, reverse=suffix == "_reverse")
                finals.append(final)
                outputs.append(y)
            x = jnp.concatenate(outputs, axis=-1)
        h, c = (jnp.stack(rows) for rows in zip(*finals, strict=True))
        x = jnp.moveaxis(x, 0, time_axis)
        return (x if lengths is None else (x, lengths)), (h, c)

    def scan(self, name, x, state, inside, reverse):
        def weight(kind, *shape):
            bound = self.hidden_size**-0.5
            usual = partial(jax.random.uniform, minval=-bound, maxval=bound)
            return self.param(f"{kind}_{name}", (self.initializers or {}).get(kind, usual), shape)

        gates = 4 * self.hidden_size
        rows = x.reshape(-1, x.shape[-1])  # one product of two matrices is XLA's fastest
        inputs = (rows @ weight("weight_ih", x.shape[-1], gates)).reshape(*x.shape[:-1], gates)
        weight_hh = weight("weight_hh", self.proj_size or self.hidden_size, gates)
        if self.bias:
            inputs = inputs + (weight("bias_ih", gates) + weight("bias_hh", gates))
        weight_hr = weight("weight_hr", self.hidden_size, self.proj_size) if self.proj_size else None

        def step(state, now):
            inputs, inside = now
            h, c = state
            i, f, g, o = jnp.split(inputs + h @ weight_hh, 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            h = h if weight_hr is None else h @ weight_hr
            if inside is not None:  # what has ended keeps its state
                h, c = jnp.where(inside, h, state[0]), jnp.where(inside, c, state[1])
            return (h, c), h

        return jax.lax.scan(step, state, (inputs, inside), reverse=reverse)
