"""A variational autoencoder whose trainer anneals the weight of the divergence, and warms up the reconstruction."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def clamp(x, min=None, max=None):
    """`jnp.clip`, with torch's gradient: at a bound it is 1, where that of `jnp.clip` is 0.5."""
    if min is not None:
        x = jnp.where(x >= min, x, jnp.maximum(jax.lax.stop_gradient(x), min))
    return x if max is None else jnp.where(x <= max, x, jnp.minimum(jax.lax.stop_gradient(x), max))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Autoencoder(nn.Module):
    features: int = 16
    latent: int = 3

    def setup(self):
        self.encoder = nn.Dense(2 * self.latent, **torch_init(fan_in=self.features))
        self.decoder = nn.Dense(self.features, **torch_init(fan_in=self.latent))

    def __call__(self, x):
        mean, log_var = jnp.split(self.encoder(x), 2, axis=-1)
        z = mean + jax.random.normal(self.make_rng("sample"), mean.shape) * jnp.exp(0.5 * log_var)
        return self.decoder(z), mean, log_var


class Ramp:
    """A weight that grows by a step at a time."""

    def __init__(self, start, steps):
        self.value, self.steps = start, steps

    def __call__(self):
        return self.value

    def advance(self):
        self.value = min(1.0, self.value + 1.0 / self.steps)


def warm_up(step, total=20):
    return 0.5 * (1 - math.cos(math.pi * min(1.0, step / total)))


@jax.jit(static_argnames=("optimizer", "self_loss"), donate_argnames=("params", "opt_state"))
def train_step(optimizer, self_loss, params, opt_state, warm_up_value, x, free_bits, ramp_value, key):
    def loss_fn(params):
        loss = warm_up_value * self_loss(params, x, free_bits, ramp_value, key)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


class Trainer:
    def __init__(self, model, params, lr=1e-3):
        self.model = model
        self.params = params
        self.optimizer = optax.adam(lr)
        self.opt_state = self.optimizer.init(params)
        self.ramp = Ramp(0.0, steps=40)
        self.free_bits = 0.5

    def divergence(self, mean, log_var, free_bits):
        each = -0.5 * (1 + log_var - (mean ** 2) - jnp.exp(log_var))
        return clamp(each, min=free_bits).sum(axis=1).mean()

    def loss(self, params, x, free_bits, ramp, key):
        restored, mean, log_var = self.model.apply({"params": params}, x, rngs={"sample": key})
        return jnp.square(restored - x).mean() + ramp * self.divergence(mean, log_var, free_bits)

    def fit(self, batches, key):
        for step, x in enumerate(batches):
            key, subkey = jax.random.split(key)
            self.params, self.opt_state, metrics = train_step(
                self.optimizer,
                self.loss,
                self.params,
                self.opt_state,
                warm_up(step),
                x,
                self.free_bits,
                self.ramp(),
                subkey,
            )
            loss = metrics["loss"]
            self.ramp.advance()
            self.free_bits *= 0.99
            print(f"{step}: {loss.item():.4f}")


def main():
    key = jax.random.key(0)
    key, subkey = jax.random.split(key)
    data = jax.random.uniform(subkey, (30, 8, 16))
    model = Autoencoder()
    key, subkey, subkey2 = jax.random.split(key, 3)
    example = data[0]
    params = model.init({"params": subkey, "sample": subkey2}, example)["params"]
    key, subkey = jax.random.split(key)
    Trainer(model, params).fit(data, subkey)


if __name__ == "__main__":
    main()
