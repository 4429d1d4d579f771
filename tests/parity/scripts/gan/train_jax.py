"""Two models, two optimizers: real and fake losses of the discriminator differentiated apart, noise drawn each step."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class BatchNorm(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.initializers.ones, (self.features,))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, (self.features,))
        running_var = self.variable("batch_stats", "var", jnp.ones, (self.features,))
        mean, var = x.mean(0), x.var(0)
        if not self.is_initializing():
            running_mean.value = 0.9 * running_mean.value + 0.1 * mean
            running_var.value = 0.9 * running_var.value + 0.1 * var * x.shape[0] / (x.shape[0] - 1)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + bias


class GeneratorMain(nn.Module):
    def setup(self):
        self.layers_0 = nn.Dense(16)
        self.layers_1 = BatchNorm(16)
        self.layers_3 = nn.Dense(8)

    def __call__(self, z):
        return jnp.tanh(self.layers_3(nn.relu(self.layers_1(self.layers_0(z)))))


class Generator(nn.Module):
    def setup(self):
        self.main = GeneratorMain()

    def __call__(self, z):
        return self.main(z)


class DiscriminatorMain(nn.Module):
    def setup(self):
        self.layers_0 = nn.Dense(16)
        self.layers_2 = nn.Dense(1)

    def __call__(self, x):
        return nn.sigmoid(self.layers_2(nn.leaky_relu(self.layers_0(x), 0.2)))


class Discriminator(nn.Module):
    def setup(self):
        self.main = DiscriminatorMain()

    def __call__(self, x):
        return self.main(x).reshape(-1)


def criterion(p, label):
    return -(label * jnp.log(p) + (1 - label) * jnp.log(1 - p)).mean()


key = jax.random.key(4)
net_g = Generator()
variables_g = net_g.init(key, jnp.zeros((2, 5)))
params_g, batch_stats = variables_g["params"], variables_g["batch_stats"]
net_d = Discriminator()
params_d = net_d.init(key, jnp.zeros((2, 8)))["params"]
optimizer_d = optax.adam(1e-3, b1=0.5)
optimizer_g = optax.adam(1e-3, b1=0.5)
state_d, state_g = optimizer_d.init(params_d), optimizer_g.init(params_g)
data = jax.random.uniform(key, (60, 8)) * 2 - 1


@jax.jit
def train_step_d(params_d, state_d, params_g, batch_stats, real, noise):
    def loss_real(params):
        return criterion(net_d.apply({"params": params}, real), 1.0)

    def loss_fake(params):
        fake, _ = net_g.apply({"params": params_g, "batch_stats": batch_stats}, noise, mutable=["batch_stats"])
        return criterion(net_d.apply({"params": params}, fake), 0.0)

    err_real, grads_real = jax.value_and_grad(loss_real)(params_d)
    err_fake, grads_fake = jax.value_and_grad(loss_fake)(params_d)
    grads = jax.tree.map(jnp.add, grads_real, grads_fake)
    updates, state_d = optimizer_d.update(grads, state_d, params_d)
    return optax.apply_updates(params_d, updates), state_d, {"loss": err_real + err_fake}


@jax.jit
def train_step_g(params_g, state_g, params_d, batch_stats, noise):
    def loss_fn(params):
        fake, updated = net_g.apply({"params": params, "batch_stats": batch_stats}, noise, mutable=["batch_stats"])
        loss = criterion(net_d.apply({"params": params_d}, fake), 1.0)
        return loss, (updated["batch_stats"], {"loss": loss})

    (_, (batch_stats, metrics)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params_g)
    updates, state_g = optimizer_g.update(grads, state_g, params_g)
    return optax.apply_updates(params_g, updates), state_g, batch_stats, metrics


for i in range(5):
    real = data[i * 12 : (i + 1) * 12]
    key, noise_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (12, 5))
    params_d, state_d, metrics_d = train_step_d(params_d, state_d, params_g, batch_stats, real, noise)
    params_g, state_g, batch_stats, metrics_g = train_step_g(params_g, state_g, params_d, batch_stats, noise)
    print(f"[{i}] Loss_D: {float(metrics_d['loss']):.4f} Loss_G: {float(metrics_g['loss']):.4f}")
