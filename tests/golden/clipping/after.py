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


class Net(nn.Module):
    def setup(self):
        self.fc = nn.Dense(1, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.fc(x).squeeze(-1)


model = Net()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((8, 4)))["params"]
optimizer = optax.adamw(3e-4, b2=0.95, weight_decay=0.01)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y):
    def loss_fn(params):
        prediction = model.apply({"params": params}, x)
        loss = jnp.square(prediction - y).mean()
        return loss, prediction

    (loss, prediction), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    grads, norm = clip_grad_norm(grads, 1.0)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "prediction": prediction, "norm": norm}


for step in range(10):
    key, subkey = jax.random.split(key)
    x = jax.random.normal(subkey, (8, 4))
    y = x.sum(axis=1)
    params, opt_state, metrics = train_step(params, opt_state, x, y)
    loss = metrics["loss"]
    prediction = metrics["prediction"]
    norm = metrics["norm"]
    print(step, loss.item(), norm.item(), jnp.abs(prediction - y).max().item())
