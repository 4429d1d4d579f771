"""A draw in a method that the forward pass calls: the pass needs a random stream, in training and evaluation."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


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


class VAE(nn.Module):
    def setup(self):
        self.encode_to = nn.Dense(4, **torch_init(fan_in=8))
        self.decode_from = nn.Dense(8, **torch_init(fan_in=2))

    def encode(self, x):
        h = self.encode_to(x)
        return h[:, :2], h[:, 2:]

    def reparameterize(self, mu, logvar):
        std = jnp.exp(0.5 * logvar)
        eps = jax.random.normal(self.make_rng("sample"), std.shape)
        return mu + eps * std

    def __call__(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return nn.sigmoid(self.decode_from(z)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = binary_cross_entropy(recon_x, x).sum()
    KLD = -0.5 * (1 + logvar - (mu ** 2) - jnp.exp(logvar)).sum()
    return BCE + KLD


key = jax.random.key(0)
model = VAE()
key, subkey, subkey2 = jax.random.split(key, 3)
params = model.init({"params": subkey, "sample": subkey2}, jnp.zeros((16, 8)))["params"]
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)
key, subkey = jax.random.split(key)
x = jax.random.uniform(subkey, (16, 8))


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, key):
    def loss_fn(params):
        recon, mu, logvar = model.apply({"params": params}, x, rngs={"sample": key})
        loss = loss_function(recon, x, mu, logvar)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for step in range(5):
    key, subkey = jax.random.split(key)
    params, opt_state, metrics = train_step(params, opt_state, x, subkey)
    loss = metrics["loss"]
    print(step, loss.item())


@jax.jit
def eval_step(params, key, *inputs):
    return model.apply({"params": params}, *inputs, rngs={"sample": key})


key, subkey = jax.random.split(key)
print(eval_step(params, subkey, x)[0].mean().item())
