"""Tensors with requires_grad=True in the place of a model: updated by hand, by `.data`, and by an optimizer."""

import jax
import jax.numpy as jnp
import optax

w = jnp.zeros((3, 1))
w_grad = jnp.zeros_like(w)
b = jnp.zeros(1)
b_grad = jnp.zeros_like(b)
key = jax.random.key(0)
key, subkey = jax.random.split(key)
X = jax.random.normal(subkey, (32, 3))
y = X @ jnp.array([[1.0], [2.0], [3.0]]) + 0.5


def net(b, w, x):
    return x @ w + b


@jax.jit
def forward_backward(b, w, b_grad, w_grad, X, y):
    def loss_fn(b, w):
        loss = ((net(b, w, X) - y) ** 2).mean()
        return loss

    loss, (new_b_grad, new_w_grad) = jax.value_and_grad(loss_fn, argnums=(0, 1))(b, w)
    return b_grad + new_b_grad, w_grad + new_w_grad, {"loss": loss}


for epoch in range(5):
    b_grad, w_grad, metrics = forward_backward(b, w, b_grad, w_grad, X, y)
    loss = metrics["loss"]
    # the same update in two notations
    w -= 0.1 * w_grad
    b -= 0.1 * b_grad
    print(loss.item(), jnp.linalg.norm(w_grad).item(), jnp.linalg.norm(b).item())
    w_grad = jnp.zeros_like(w)
    b_grad = jnp.zeros_like(b)

theta = jnp.array([1.0, 2.0])
offset = jnp.ones(2)
optimizer = optax.adam(0.1)
opt_state = optimizer.init((theta, offset))


@jax.jit(donate_argnames="opt_state")
def train_step(theta, offset, opt_state):
    def loss_fn(theta, offset):
        value = (theta * offset * jax.lax.stop_gradient(theta)).sum()
        return value

    loss, (theta_grad, offset_grad) = jax.value_and_grad(loss_fn, argnums=(0, 1))(theta, offset)
    updates, opt_state = optimizer.update((theta_grad, offset_grad), opt_state, (theta, offset))
    theta, offset = optax.apply_updates((theta, offset), updates)
    return theta, offset, opt_state, {"loss": loss}


for _ in range(3):
    theta, offset, opt_state, metrics = train_step(theta, offset, opt_state)
    value = metrics["loss"]
    print(value.item())
