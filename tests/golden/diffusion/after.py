from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def exists(x):
    return x is not None


def default(val, d):
    if exists(val):
        return val
    return d() if callable(d) else d


def gather(x, axis, index):
    """Takes elements along an axis, as torch does: on the other axes the index may be shorter than x."""
    kept = tuple(slice(None) if i == axis % x.ndim else slice(n) for i, n in enumerate(index.shape))
    return jnp.take_along_axis(x[kept], index, axis=axis)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = gather(a, -1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


def linear_beta_schedule(timesteps):
    scale = 1000 / timesteps
    beta_start = scale * 0.0001
    beta_end = scale * 0.02
    return jnp.linspace(beta_start, beta_end, timesteps, dtype=jnp.float64)


class Net(nn.Module):
    dim: int

    def setup(self):
        self.fc = nn.Dense(16, **torch_init(fan_in=self.dim + 1))
        self.out = nn.Dense(self.dim, **torch_init(fan_in=16))

    def __call__(self, x, t):
        return self.out(
            nn.silu(self.fc(jnp.concatenate((x, t[:, None].astype(jnp.float32) / 100), axis=-1)))
        )


class Diffusion(nn.Module):
    model: Any
    timesteps: int = 100

    def setup(self):
        betas = linear_beta_schedule(self.timesteps)
        alphas = 1. - betas
        alphas_cumprod = jnp.cumprod(alphas, axis=0)
        alphas_cumprod_prev = jnp.pad(
            alphas_cumprod[:-1],
            [(0, 0)] * (alphas_cumprod[:-1].ndim - 1) + [(1, 0)],
            constant_values=1.0,
        )
        self.num_timesteps = int(betas.shape[0])

        self.betas = betas.astype(jnp.float32)
        self.alphas_cumprod = alphas_cumprod.astype(jnp.float32)
        self.alphas_cumprod_prev = alphas_cumprod_prev.astype(jnp.float32)
        self.sqrt_alphas_cumprod = jnp.sqrt(alphas_cumprod).astype(jnp.float32)
        self.sqrt_one_minus_alphas_cumprod = jnp.sqrt(1. - alphas_cumprod).astype(jnp.float32)

    def q_sample(self, x_start, t, noise=None):
        noise = (
            noise
            if noise is not None
            else jax.random.normal(self.make_rng("sample"), x_start.shape)
        )
        return (
            extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start +
            extract(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise
        )

    def p_losses(self, x_start, t, noise=None):
        noise = (
            noise
            if noise is not None
            else jax.random.normal(self.make_rng("sample"), x_start.shape)
        )
        x = self.q_sample(x_start=x_start, t=t, noise=noise)
        out = self.model(x, t)
        return jnp.square(out - noise).mean()

    def __call__(self, x):
        b = x.shape[0]
        t = jax.random.randint(self.make_rng("sample"), (b,), 0, self.num_timesteps).astype(
            jnp.int32
        )
        return self.p_losses(x, t)


key = jax.random.key(0)
diffusion = Diffusion(Net(4))
key, subkey, subkey2 = jax.random.split(key, 3)
params = diffusion.init({"params": subkey, "sample": subkey2}, jnp.zeros((64, 4)))["params"]
opt = optax.adam(1e-3)
opt_state = opt.init(params)
key, subkey = jax.random.split(key)
data = jax.random.uniform(subkey, (64, 4))


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, data, key):
    def loss_fn(params):
        loss = diffusion.apply({"params": params}, data, rngs={"sample": key})
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = opt.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for i in range(10):
    key, subkey = jax.random.split(key)
    params, opt_state, metrics = train_step(params, opt_state, data, subkey)
    loss = metrics["loss"]
    print(
        f"step {i}: loss {loss.item():.4f}, "
        f"data {data.std(ddof=1):.4f} of {data.shape[0]}"
    )
