"""A least-squares GAN: the generator steps first, and the discriminator takes what it has made, detached."""

import argparse
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Generator(nn.Module):
    training: bool = False

    def setup(self):
        self.model = nn.Sequential([
            nn.Dense(12, **torch_init(fan_in=6)),
            partial(nn.leaky_relu, negative_slope=0.2),
            nn.Dropout(0.25, deterministic=not self.training),
            nn.Dense(3, **torch_init(fan_in=12)),
            nn.tanh,
        ])

    def __call__(self, z):
        return self.model(z)


class Discriminator(nn.Module):
    def setup(self):
        self.hidden = nn.Dense(12, **torch_init(fan_in=3))
        self.validity = nn.Dense(1, **torch_init(fan_in=12))

    def __call__(self, x):
        return self.validity(jnp.tanh(self.hidden(x)))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--n_critic", type=int, default=2)
opt = parser.parse_args()

adversarial_loss = lambda outputs, targets: jnp.square(outputs - targets).mean()
generator = Generator()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
generator_params = generator.init(subkey, jnp.zeros((16, 6)))["params"]
discriminator = Discriminator()
key, subkey = jax.random.split(key)
discriminator_params = discriminator.init(subkey, jnp.zeros((16, 3)))["params"]
optimizer_G = optax.adam(1e-3)
optimizer_G_state = optimizer_G.init(generator_params)
optimizer_D = optax.rmsprop(1e-3, decay=0.99, eps_in_sqrt=False)
optimizer_D_state = optimizer_D.init(discriminator_params)
key, subkey = jax.random.split(key)
samples = jax.random.uniform(subkey, (16, 3))


@jax.jit(donate_argnames=("generator_params", "optimizer_G_state"))
def train_step_g(generator_params, discriminator_params, optimizer_G_state, z, valid, key):
    def loss_fn(generator_params):
        gen = generator.clone(training=True).apply({"params": generator_params}, z, rngs={"dropout": key})
        g_loss = adversarial_loss(discriminator.apply({"params": discriminator_params}, gen), valid)
        return g_loss, gen

    (loss, gen), grads = jax.value_and_grad(loss_fn, has_aux=True)(generator_params)
    updates, optimizer_G_state = optimizer_G.update(grads, optimizer_G_state, generator_params)
    generator_params = optax.apply_updates(generator_params, updates)
    return generator_params, optimizer_G_state, {"loss": loss, "gen": gen}


@jax.jit(donate_argnames=("discriminator_params", "optimizer_D_state"))
def train_step_d(discriminator_params, optimizer_D_state, samples, valid, gen, fake):
    def loss_fn(discriminator_params):
        real_loss = adversarial_loss(discriminator.apply({"params": discriminator_params}, samples), valid)
        fake_loss = adversarial_loss(
            discriminator.apply({"params": discriminator_params}, jax.lax.stop_gradient(gen)), fake
        )
        d_loss = 0.5 * (real_loss + fake_loss)
        return d_loss

    loss, grads = jax.value_and_grad(loss_fn)(discriminator_params)
    updates, optimizer_D_state = optimizer_D.update(grads, optimizer_D_state, discriminator_params)
    discriminator_params = optax.apply_updates(discriminator_params, updates)
    return discriminator_params, optimizer_D_state, {"loss": loss}


@jax.jit(donate_argnames=("generator_params", "optimizer_G_state"))
def train_step_g_2(generator_params, discriminator_params, optimizer_G_state, z, key):
    def loss_fn(generator_params):
        again = generator.clone(training=True).apply({"params": generator_params}, z, rngs={"dropout": key})
        h_loss = -discriminator.apply({"params": discriminator_params}, again).mean()
        return h_loss

    loss, grads = jax.value_and_grad(loss_fn)(generator_params)
    updates, optimizer_G_state = optimizer_G.update(grads, optimizer_G_state, generator_params)
    generator_params = optax.apply_updates(generator_params, updates)
    return generator_params, optimizer_G_state, {"loss": loss}


for i in range(opt.steps):
    valid = jnp.ones((16, 1))
    fake = jnp.zeros((16, 1))

    key, subkey = jax.random.split(key)
    z = jax.random.normal(subkey, (16, 6))
    key, subkey = jax.random.split(key)
    generator_params, optimizer_G_state, metrics = train_step_g(
        generator_params, discriminator_params, optimizer_G_state, z, valid, subkey
    )
    g_loss = metrics["loss"]
    gen = metrics["gen"]

    discriminator_params, optimizer_D_state, metrics = train_step_d(
        discriminator_params, optimizer_D_state, samples, valid, gen, fake
    )
    d_loss = metrics["loss"]

    if i % opt.n_critic == 0:
        key, subkey = jax.random.split(key)
        generator_params, optimizer_G_state, metrics = train_step_g_2(
            generator_params, discriminator_params, optimizer_G_state, z, subkey
        )
        h_loss = metrics["loss"]
        print(i, d_loss.item(), g_loss.item(), h_loss.item())
