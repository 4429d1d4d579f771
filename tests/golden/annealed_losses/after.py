import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def reconstruction(output, target, averaged=True):
    return jnp.square(output - target).mean() if averaged else jnp.square(output - target).sum()


class Noisy(nn.Module):
    turns: int = 10

    def setup(self):
        kept = 1.0 - jnp.linspace(0.0, 0.5, self.turns)
        self.scale = jnp.sqrt(kept).astype(jnp.float32)
        self.spread = jnp.sqrt(1.0 - kept).astype(jnp.float32)

    def __call__(self, x, turn):
        return (
            x * self.scale[turn]
            + jax.random.normal(self.make_rng("sample"), x.shape) * self.spread[turn]
        )


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class VAE(nn.Module):
    def setup(self):
        self.noisy = Noisy()
        self.encoder = nn.Dense(4, **torch_init(fan_in=6))
        self.decoder = nn.Dense(6, **torch_init(fan_in=2))

    def reparameterize(self, mean, log_variance):
        return mean + jax.random.normal(self.make_rng("sample"), mean.shape) * jnp.exp(
            0.5 * log_variance
        )

    def __call__(self, x):
        mean, log_variance = jnp.split(self.encoder(self.noisy(x, 3)), 2, axis=1)
        return self.decoder(self.reparameterize(mean, log_variance)), mean, log_variance


key = jax.random.key(0)
model = VAE()
key, subkey, subkey2 = jax.random.split(key, 3)
params = model.init({"params": subkey, "sample": subkey2}, jnp.zeros((64, 6))[ : 16])["params"]
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)
key, subkey = jax.random.split(key)
data = jax.random.uniform(subkey, (64, 6))
betas = np.linspace(0, 1, 5)
weights = jnp.linspace(1, 2, 5)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, weights_now, betas_now, key):
    def loss_fn(params):
        output, mean, log_variance = model.apply({"params": params}, x, rngs={"sample": key})
        divergence = -0.5 * (1 + log_variance - mean**2 - jnp.exp(log_variance)).mean()
        loss = weights_now * reconstruction(output, x) + betas_now * divergence
        return loss, output

    (loss, output), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "output": output}


for epoch in range(5):
    for start in range(0, 64, 16):
        x = data[start : start + 16]
        weights_now = weights[epoch].item()
        betas_now = float(betas[epoch])
        key, subkey = jax.random.split(key)
        params, opt_state, metrics = train_step(
            params, opt_state, x, weights_now, betas_now, subkey
        )
        loss = metrics["loss"]
        output = metrics["output"]
    print(epoch, loss.item(), reconstruction(output, x, averaged=False).item())
