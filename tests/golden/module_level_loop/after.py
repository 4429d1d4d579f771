import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

key = jax.random.key(1)
x = jnp.expand_dims(jnp.linspace(-1, 1, 64), 1)
y = x ** 3


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Sequential([
    nn.Dense(16, **torch_init(fan_in=1)),
    nn.tanh,
    nn.Dense(1, **torch_init(fan_in=16)),
])
key, subkey = jax.random.split(key)
params = model.init(subkey, x)["params"]
loss_fn = lambda outputs, targets: jnp.square(outputs - targets).sum()
optimizer = optax.adam(1e-2)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y):
    def compute_loss(params):
        y_pred = model.apply({"params": params}, x)
        loss = loss_fn(y_pred, y)
        return loss

    loss, grads = jax.value_and_grad(compute_loss)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for t in range(200):
    params, opt_state, metrics = train_step(params, opt_state, x, y)
    loss = metrics["loss"]
    if t % 50 == 49:
        print(t, loss.item())
