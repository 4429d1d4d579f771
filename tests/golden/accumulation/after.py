import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Sequential([
    nn.Dense(8, **torch_init(fan_in=4)),
    nn.relu,
    nn.Dense(1, **torch_init(fan_in=8)),
])
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((32, 4))[ : 1])["params"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)
key, subkey, subkey2 = jax.random.split(key, 3)
x, y = jax.random.normal(subkey, (32, 4)), jax.random.normal(subkey2, (32, 1))
accumulation = 4

grads = jax.tree.map(jnp.zeros_like, params)


@jax.jit(donate_argnames="grads")
def forward_backward(params, grads, x_batch, y_batch):
    def loss_fn(params):
        loss = ((model.apply({"params": params}, x_batch) - y_batch) ** 2).mean() / accumulation
        return loss

    loss, new_grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(jnp.add, grads, new_grads), {"loss": loss}


@jax.jit(donate_argnames=("params", "opt_state", "grads"))
def optimizer_update(params, opt_state, grads):
    grads, _ = clip_grad_norm(grads, 1.0)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, jax.tree.map(jnp.zeros_like, grads)


for i in range(32):
    grads, metrics = forward_backward(params, grads, x[i : i + 1], y[i : i + 1])
    if (i + 1) % accumulation == 0:
        params, opt_state, grads = optimizer_update(params, opt_state, grads)
