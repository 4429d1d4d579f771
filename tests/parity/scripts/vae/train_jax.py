"""A variational autoencoder: the noise of the reparameterisation, two methods of one model, Adam."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class VAE(nn.Module):
    def setup(self):
        self.fc1 = nn.Dense(16)
        self.fc21 = nn.Dense(4)
        self.fc22 = nn.Dense(4)
        self.fc3 = nn.Dense(16)
        self.fc4 = nn.Dense(20)

    def encode(self, x):
        h1 = nn.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = jnp.exp(0.5 * logvar)
        eps = jax.random.normal(self.make_rng("noise"), std.shape)
        return mu + eps * std

    def decode(self, z):
        return nn.sigmoid(self.fc4(nn.relu(self.fc3(z))))

    def __call__(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


key = jax.random.key(2)
data = jax.random.uniform(key, (64, 20))
model = VAE()
params = model.init({"params": key, "noise": key}, data[:1])["params"]
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)

model.apply({"params": params}, data[:2], method="encode")


@jax.jit
def train_step(params, opt_state, batch, key):
    def loss_fn(params):
        recon, mu, logvar = model.apply({"params": params}, batch, rngs={"noise": key})
        bce = -(batch * jnp.log(recon) + (1 - batch) * jnp.log(1 - recon)).sum()
        kld = -0.5 * (1 + logvar - mu**2 - jnp.exp(logvar)).sum()
        loss = bce + kld
        return loss, {"loss": loss}

    (_, metrics), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, metrics


for step in range(12):
    batch = data[(step % 4) * 16 : (step % 4 + 1) * 16]
    key, step_key = jax.random.split(key)
    params, opt_state, metrics = train_step(params, opt_state, batch, step_key)
print("Done!")
