"""Tensor types by another name, layers made by a function, sizes and data for the same constructor, a
module called on several devices."""

import numpy as np
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset

cuda = jax.default_backend() == "gpu"
image_shape = (1, 4, 4)
latent = 6


@dataclass
class Output:
    loss: jax.Array | None = None
    parts: tuple[jax.Array, ...] = ()
    first: nn.Module | None = None
    optimizer: optax.GradientTransformation | None = None
    device: str | jax.Device = "cpu"


class BatchNorm(nn.Module):
    """Batch normalisation with torch's running statistics: the variance is the unbiased one."""

    use_running_average: bool
    momentum: float = 0.1
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = -1
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        features = x.shape[self.axis]
        axis = self.axis % x.ndim
        others = tuple(i for i in range(x.ndim) if i != axis)
        shape = [features if i == axis else 1 for i in range(x.ndim)]
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, features)
        running_var = self.variable("batch_stats", "var", jnp.ones, features)
        if self.use_running_average:
            mean, var = running_mean.value, running_var.value
        else:
            mean = x.mean(others)
            var = jnp.square(x - mean.reshape(shape)).mean(others)
            if not self.is_initializing():
                n = x.size // features
                m = self.momentum
                running_mean.value = (1 - m) * running_mean.value + m * jax.lax.stop_gradient(mean)
                running_var.value = (1 - m) * running_var.value + m * jax.lax.stop_gradient(var) * n / (n - 1)
        y = (x - mean.reshape(shape)) * jax.lax.rsqrt(var + self.epsilon).reshape(shape)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)).reshape(shape)
            y = y + self.param("bias", self.bias_init, (features,)).reshape(shape)
        return y


@jax.custom_jvp
def binary_cross_entropy(probs, targets):
    """Binary cross entropy of probabilities; as in torch the logarithms are clamped at -100, so 0 and 1 stay finite."""
    log, log_of_rest = jnp.log(probs).clip(-100), jnp.log1p(-probs).clip(-100)
    return -(targets * log + (1 - targets) * log_of_rest)


@binary_cross_entropy.defjvp
def binary_cross_entropy_jvp(primals, tangents):
    """Torch divides by p (1 - p), but never by less than 1e-12: of smaller probabilities the gradients vanish."""
    (probs, targets), (by_probs, by_targets) = primals, tangents
    slope_by_probs = (probs - targets) / jnp.maximum(probs * (1 - probs), 1e-12)
    slope_by_targets = jnp.log1p(-probs).clip(-100) - jnp.log(probs).clip(-100)
    return binary_cross_entropy(probs, targets), slope_by_probs * by_probs + slope_by_targets * by_targets


def normal_around(mean, stddev):
    """Initial values drawn around a mean; `nn.initializers.normal` has them around 0."""
    return lambda key, shape, dtype=jnp.float32: mean + stddev * jax.random.normal(key, shape, dtype)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Generator(nn.Module):
    training: bool = False

    def setup(self):
        def block(width, out, normalize=True, training=False):
            layers = [nn.Dense(out, **torch_init(fan_in=width))]
            if normalize:
                layers.append(
                    BatchNorm(
                        use_running_average=not training, epsilon=0.8, axis=1, scale_init=normal_around(1.0, 0.02)
                    )
                )
            layers.append(partial(nn.leaky_relu, negative_slope=0.2))
            return layers

        self.model = nn.Sequential(
            [
                *block(latent, 8, normalize=False, training=self.training),
                *block(8, 12, training=self.training),
                nn.Dense(int(np.prod(image_shape)), **torch_init(fan_in=12)),
                nn.tanh,
            ]
        )

    def __call__(self, z):
        return self.model(z).reshape(z.shape[0], *image_shape)


class Discriminator(nn.Module):
    training: bool = False

    def setup(self):
        self.model = nn.Sequential([
            nn.Dense(8, **torch_init(fan_in=16)),
            BatchNorm(use_running_average=not self.training, axis=1, scale_init=normal_around(1.0, 0.02)),
            partial(nn.leaky_relu, negative_slope=0.2),
            nn.Dense(1, **torch_init(fan_in=8)),
            nn.sigmoid,
        ])

    def __call__(self, image):
        flat = image.reshape(image.shape[0], -1)
        if ((jax.default_backend() == "gpu") or (jax.default_backend() == "xpu")) and jax.local_device_count() > 1:
            return self.model(flat)
        return self.model(flat)


generator = Generator()
discriminator = Discriminator()
adversarial_loss = lambda outputs, targets: binary_cross_entropy(outputs, targets).mean()
loader = DataLoader(TensorDataset(torch.rand(32, *image_shape)), batch_size=8)
optimizer_G = optax.adam(0.0002, b1=0.5)
optimizer_D = optax.adam(0.0002, b1=0.5)
key = jax.random.key(0)
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
variables = generator.init(subkey, jnp.asarray(np.zeros((example[0].shape[0], latent)), jnp.float32))
generator_params, generator_batch_stats = variables["params"], variables.get("batch_stats", {})
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
variables = discriminator.init(subkey, jnp.asarray(example[0]).astype(jnp.float32))
discriminator_params, discriminator_batch_stats = variables["params"], variables["batch_stats"]
optimizer_G_state = optimizer_G.init(generator_params)
optimizer_D_state = optimizer_D.init(discriminator_params)
patch = (1,)


@jax.jit(
    donate_argnames=("generator_params", "generator_batch_stats", "discriminator_batch_stats", "optimizer_G_state")
)
def train_step_g(
    generator_params,
    generator_batch_stats,
    discriminator_params,
    discriminator_batch_stats,
    optimizer_G_state,
    z,
    valid,
):
    def loss_fn(generator_params, generator_batch_stats, discriminator_batch_stats):
        made, mutated = generator.clone(training=True).apply(
            {"params": generator_params, "batch_stats": generator_batch_stats}, z, mutable=["batch_stats"]
        )
        generator_batch_stats = mutated["batch_stats"]
        output, mutated = discriminator.clone(training=True).apply(
            {"params": discriminator_params, "batch_stats": discriminator_batch_stats}, made, mutable=["batch_stats"]
        )
        discriminator_batch_stats = mutated["batch_stats"]
        g_loss = adversarial_loss(output, valid)
        return g_loss, (generator_batch_stats, discriminator_batch_stats, made)

    (loss, (generator_batch_stats, discriminator_batch_stats, made)), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        generator_params, generator_batch_stats, discriminator_batch_stats
    )
    updates, optimizer_G_state = optimizer_G.update(grads, optimizer_G_state, generator_params)
    generator_params = optax.apply_updates(generator_params, updates)
    return (
        generator_params,
        generator_batch_stats,
        discriminator_batch_stats,
        optimizer_G_state,
        {"loss": loss, "made": made},
    )


@jax.jit(donate_argnames=("discriminator_params", "discriminator_batch_stats", "optimizer_D_state"))
def train_step_d(discriminator_params, discriminator_batch_stats, optimizer_D_state, real, made, valid, fake):
    def loss_fn(discriminator_params, discriminator_batch_stats):
        output, mutated = discriminator.clone(training=True).apply(
            {"params": discriminator_params, "batch_stats": discriminator_batch_stats}, real, mutable=["batch_stats"]
        )
        discriminator_batch_stats = mutated["batch_stats"]
        output_2, mutated = discriminator.clone(training=True).apply(
            {"params": discriminator_params, "batch_stats": discriminator_batch_stats},
            jax.lax.stop_gradient(made),
            mutable=["batch_stats"],
        )
        discriminator_batch_stats = mutated["batch_stats"]
        d_loss = (
            adversarial_loss(output, valid) + adversarial_loss(output_2, fake)
        ) / 2
        return d_loss, discriminator_batch_stats

    (loss, discriminator_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        discriminator_params, discriminator_batch_stats
    )
    updates, optimizer_D_state = optimizer_D.update(grads, optimizer_D_state, discriminator_params)
    discriminator_params = optax.apply_updates(discriminator_params, updates)
    return discriminator_params, discriminator_batch_stats, optimizer_D_state, {"loss": loss}


for epoch in range(2):
    for (images,) in loader:
        valid = jnp.full((images.size(0), 1), 1.0, jnp.float32)
        fake = jnp.full((images.shape[0], *patch), 0.0, jnp.float32)
        real = jnp.asarray(images).astype(jnp.float32)

        z = jnp.asarray(np.random.normal(0, 1, (images.shape[0], latent)), jnp.float32)
        generator_params, generator_batch_stats, discriminator_batch_stats, optimizer_G_state, metrics = train_step_g(
            generator_params,
            generator_batch_stats,
            discriminator_params,
            discriminator_batch_stats,
            optimizer_G_state,
            z,
            valid,
        )
        g_loss = metrics["loss"]
        made = metrics["made"]

        discriminator_params, discriminator_batch_stats, optimizer_D_state, metrics = train_step_d(
            discriminator_params, discriminator_batch_stats, optimizer_D_state, real, made, valid, fake
        )
        d_loss = metrics["loss"]
        print(f"{d_loss.item():.4f} {g_loss.item():.4f}")
