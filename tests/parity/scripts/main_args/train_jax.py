"""A regression behind argparse and main(): gradient accumulation, clipping, a learning-rate schedule, a data file."""

import argparse
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


class Regressor(nn.Module):
    width: int

    def setup(self):
        self.hidden = nn.Dense(self.width)
        self.out = nn.Dense(1)

    def __call__(self, x):
        return self.out(jnp.tanh(self.hidden(x))).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    key = jax.random.key(3)
    with open(os.path.join("data", "scale.txt")) as file:
        scale = float(file.read())
    rng = np.random.RandomState(0)
    x = jnp.asarray(rng.randn(48, 6).astype(np.float32) * scale)
    y = jnp.sin(x.sum(1))

    model = Regressor(args.width)
    params = model.init(key, x[:1])["params"]

    @jax.jit
    def forward_backward(params, grads, inputs, targets):
        def loss_fn(params):
            loss = jnp.square(model.apply({"params": params}, inputs) - targets).mean() / 2
            return loss, {"loss": loss}

        (_, metrics), new = jax.value_and_grad(loss_fn, has_aux=True)(params)
        return jax.tree.map(jnp.add, grads, new), metrics

    @jax.jit
    def optimizer_update(params, grads, lr):
        norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(grads)))
        factor = jnp.minimum(0.5 / (norm + 1e-6), 1.0)
        return jax.tree.map(lambda p, g: p - lr * (factor * g + 1e-2 * p), params, grads)

    for epoch in range(args.epochs):
        grads = jax.tree.map(jnp.zeros_like, params)
        for micro in range(2):
            batch = slice(micro * 24, (micro + 1) * 24)
            grads, metrics = forward_backward(params, grads, x[batch], y[batch])
        params = optimizer_update(params, grads, args.lr * 0.5 ** (epoch // 2))
        print(epoch, float(metrics["loss"]))
    with open("regressor.msgpack", "wb") as file:
        file.write(b"saved")


if __name__ == "__main__":
    main()
