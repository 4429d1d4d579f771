"""Gradients that a script takes by torch.autograd.grad, and applies by hand or by way of an optimizer."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

key = jax.random.key(0)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (16, 3))
key, subkey = jax.random.split(key)
y = jax.random.normal(subkey, (16, 1))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    def setup(self):
        self.hidden = nn.Dense(8, **torch_init(fan_in=3))
        self.out = nn.Dense(1, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.out(jnp.tanh(self.hidden(x)))


@jax.jit(static_argnames="model", donate_argnames="model_grads")
def forward_backward(model, model_params, model_grads, x, y):
    def loss_fn(model_params):
        loss = ((model.apply({"params": model_params}, x) - y) ** 2).mean()
        return loss

    loss, new_model_grads = jax.value_and_grad(loss_fn)(model_params)
    return jax.tree.map(jnp.add, model_grads, new_model_grads), {"loss": loss}


def descend(model, model_params, model_grads, steps, lr=0.1):
    for _ in range(steps):
        model_grads = jax.tree.map(jnp.zeros_like, model_params)
        model_grads, metrics = forward_backward(model, model_params, model_grads, x, y)
        loss = metrics["loss"]
        norm = jnp.sqrt(sum((grad**2).sum() for grad in jax.tree.leaves(model_grads))).item()
        model_params = jax.tree.map(
            lambda p, grad: p - lr * min(1.0, 1.0 / norm) * grad, model_params, model_grads
        )
        print(loss.item(), norm)
    return model_params, model_grads


model_2 = Net()
key, subkey = jax.random.split(key)
model_2_params = model_2.init(subkey, x)["params"]
model_2_grads = jax.tree.map(jnp.zeros_like, model_2_params)
model_2_params, model_2_grads = descend(model_2, model_2_params, model_2_grads, 3)

model = Net()
key, subkey = jax.random.split(key)
model_params = model.init(subkey, x)["params"]
optimizer = optax.adam(0.01)
opt_state = optimizer.init(model_params)


@jax.jit(donate_argnames=("model_params", "opt_state"))
def train_step(model_params, opt_state, x, y):
    def loss_fn(model_params):
        loss = ((model.apply({"params": model_params}, x) - y) ** 2).mean()
        return loss

    loss, model_grads = jax.value_and_grad(loss_fn)(model_params)
    updates, opt_state = optimizer.update(model_grads, opt_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, opt_state, {"loss": loss}


for step in range(5):
    model_params, opt_state, metrics = train_step(model_params, opt_state, x, y)
    loss = metrics["loss"]
    print(loss.item())
