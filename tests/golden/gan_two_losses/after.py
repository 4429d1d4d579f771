"""A GAN on blobs. The discriminator's step sums two backward passes; the generator's goes through an earlier forward."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


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


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Generator(nn.Module):
    latent: int
    training: bool = False

    def setup(self):
        self.main = nn.Sequential([
            nn.Dense(16, **torch_init(fan_in=self.latent)),
            BatchNorm(use_running_average=not self.training, axis=1),
            nn.relu,
            nn.Dense(2, **torch_init(fan_in=16)),
        ])

    def __call__(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    training: bool = False

    def setup(self):
        self.first = nn.Dense(16, **torch_init(fan_in=2))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.last = nn.Dense(1, **torch_init(fan_in=16))

    def __call__(self, x):
        x = nn.relu(self.norm(self.first(x)))
        return nn.sigmoid(self.last(x)).reshape(-1)


key = jax.random.key(0)
netG = Generator(4)
key, subkey = jax.random.split(key)
variables = netG.init(subkey, jnp.zeros(((jnp.zeros((5, 32, 2)) + 2)[0 % 5].shape[0], 4)))
netG_params, netG_batch_stats = variables["params"], variables["batch_stats"]
netD = Discriminator()
key, subkey = jax.random.split(key)
variables = netD.init(subkey, (jnp.zeros((5, 32, 2)) + 2)[0 % 5])
netD_params, netD_batch_stats = variables["params"], variables["batch_stats"]
criterion = lambda outputs, targets: binary_cross_entropy(outputs, targets).mean()
optimizerD = optax.adam(2e-3, b1=0.5)
optimizerD_state = optimizerD.init(netD_params)
optimizerG = optax.adam(1e-3, b1=0.5)
optimizerG_state = optimizerG.init(netG_params)
key, subkey = jax.random.split(key)
blobs = jax.random.normal(subkey, (5, 32, 2)) + 2


@jax.jit(donate_argnames=("netD_params", "netD_batch_stats", "netG_batch_stats", "optimizerD_state"))
def train_step_d(netD_params, netD_batch_stats, netG_params, netG_batch_stats, optimizerD_state, real, label, noise):
    def errD_real_fn(netD_params, netD_batch_stats):
        output, mutated = netD.clone(training=True).apply(
            {"params": netD_params, "batch_stats": netD_batch_stats}, real, mutable=["batch_stats"]
        )
        netD_batch_stats = mutated["batch_stats"]
        errD_real = criterion(output, label)
        return errD_real, (netD_batch_stats, output)

    (errD_real, (netD_batch_stats, output)), grads = jax.value_and_grad(errD_real_fn, has_aux=True)(
        netD_params, netD_batch_stats
    )
    first_output = output

    def errD_fake_fn(netD_params, netG_batch_stats, netD_batch_stats, label):
        fake, mutated = netG.clone(training=True).apply(
            {"params": netG_params, "batch_stats": netG_batch_stats}, noise, mutable=["batch_stats"]
        )
        netG_batch_stats = mutated["batch_stats"]
        label = jnp.full_like(label, 0.0)
        output, mutated = netD.clone(training=True).apply(
            {"params": netD_params, "batch_stats": netD_batch_stats},
            jax.lax.stop_gradient(fake),
            mutable=["batch_stats"],
        )
        netD_batch_stats = mutated["batch_stats"]
        errD_fake = criterion(output, label)
        return errD_fake, (netG_batch_stats, netD_batch_stats, fake, output, label)

    (errD_fake, (netG_batch_stats, netD_batch_stats, fake, output, label)), new_grads = jax.value_and_grad(
        errD_fake_fn, has_aux=True
    )(netD_params, netG_batch_stats, netD_batch_stats, label)
    grads = jax.tree.map(jnp.add, grads, new_grads)
    updates, optimizerD_state = optimizerD.update(grads, optimizerD_state, netD_params)
    netD_params = optax.apply_updates(netD_params, updates)
    return (
        netD_params,
        netD_batch_stats,
        netG_batch_stats,
        optimizerD_state,
        {
            "loss": errD_real + errD_fake,
            "errD_real": errD_real,
            "output": first_output,
            "errD_fake": errD_fake,
            "fake": fake,
            "output_2": output,
            "label": label,
        },
    )


@jax.jit(donate_argnames=("netG_params", "netD_batch_stats", "optimizerG_state"))
def train_step_g(netG_params, netG_batch_stats, netD_params, netD_batch_stats, optimizerG_state, noise, label):
    def loss_fn(netG_params, netD_batch_stats):
        fake, _ = netG.clone(training=True).apply(
            {"params": netG_params, "batch_stats": netG_batch_stats}, noise, mutable=["batch_stats"]
        )
        output, mutated = netD.clone(training=True).apply(
            {"params": netD_params, "batch_stats": netD_batch_stats}, fake, mutable=["batch_stats"]
        )
        netD_batch_stats = mutated["batch_stats"]
        errG = criterion(output, label)
        return errG, (netD_batch_stats, output)

    (loss, (netD_batch_stats, output)), grads = jax.value_and_grad(loss_fn, has_aux=True)(netG_params, netD_batch_stats)
    updates, optimizerG_state = optimizerG.update(grads, optimizerG_state, netG_params)
    netG_params = optax.apply_updates(netG_params, updates)
    return netG_params, netD_batch_stats, optimizerG_state, {"loss": loss, "output": output}


for i in range(10):
    real = blobs[i % 5]
    label = jnp.full((real.shape[0],), 1.0)
    key, subkey = jax.random.split(key)
    noise = jax.random.normal(subkey, (real.shape[0], 4))
    netD_params, netD_batch_stats, netG_batch_stats, optimizerD_state, metrics = train_step_d(
        netD_params, netD_batch_stats, netG_params, netG_batch_stats, optimizerD_state, real, label, noise
    )
    errD_real = metrics["errD_real"]
    output = metrics["output"]
    D_x = output.mean().item()
    errD_fake = metrics["errD_fake"]
    fake = metrics["fake"]
    output = metrics["output_2"]
    label = metrics["label"]
    D_G_z1 = output.mean().item()
    errD = errD_real + errD_fake

    label = jnp.full_like(label, 1.0)
    netG_params, netD_batch_stats, optimizerG_state, metrics = train_step_g(
        netG_params, netG_batch_stats, netD_params, netD_batch_stats, optimizerG_state, noise, label
    )
    errG = metrics["loss"]
    output = metrics["output"]
    D_G_z2 = output.mean().item()
    print(f"{i} {errD.item():.4f} {errG.item():.4f} {D_x:.4f} {D_G_z1:.4f} / {D_G_z2:.4f}")


@jax.jit
def forward_pass_netG(params, batch_stats, *inputs):
    variables = {"params": params, "batch_stats": batch_stats}
    output, mutated = netG.clone(training=True).apply(variables, *inputs, mutable=["batch_stats"])
    return output, mutated["batch_stats"]


key, subkey = jax.random.split(key)
fake, netG_batch_stats = forward_pass_netG(netG_params, netG_batch_stats, jax.random.normal(subkey, (8, 4)))
print(fake.mean().item())
