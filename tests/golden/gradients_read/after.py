"""Gradients that a loop looks at between backward() and the step."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

key = jax.random.key(0)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (16, 3))
key, subkey = jax.random.split(key)
y = jax.random.normal(subkey, (16, 1))


def gradient_norm(model, grads):
    norms = [jnp.linalg.norm(grad) for grad in jax.tree.leaves(grads)]
    return jnp.linalg.norm(jnp.stack(norms)).item()


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Sequential((
    nn.Dense(8, **torch_init(fan_in=3)),
    nn.tanh,
    nn.Dense(1, **torch_init(fan_in=8)),
))
key, subkey = jax.random.split(key)
params = model.init(subkey, x)["params"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)
grads = jax.tree.map(jnp.zeros_like, params)
earlier = None


@jax.jit(donate_argnames="grads")
def forward_backward(params, grads, x, y):
    def loss_fn(params):
        loss = ((model.apply({"params": params}, x) - y) ** 2).mean()
        return loss

    loss, new_grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(jnp.add, grads, new_grads), {"loss": loss}


@jax.jit(donate_argnames=("params", "opt_state"))
def optimizer_update(params, opt_state, grads):
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


for step in range(5):
    grads = jax.tree.map(jnp.zeros_like, params)
    grads, metrics = forward_backward(params, grads, x, y)
    loss = metrics["loss"]
    largest = max(jnp.abs(grad).max().item() for grad in jax.tree.leaves(grads))
    ratio = sum(
        (jnp.linalg.norm(grad) / jnp.linalg.norm(p)).item()
        for p, grad in zip(jax.tree.leaves(params), jax.tree.leaves(grads))
    )
    flat = jnp.concatenate([grad.reshape(-1) for grad in jax.tree.leaves(grads)])
    kept = []
    for grad in jax.tree.leaves(grads):
        kept.append(jnp.copy(grad))
    if earlier is not None:
        print("cosine", sum((a * b).sum() for a, b in zip(earlier, kept)).item())
    earlier = [jnp.copy(grad) for grad in jax.tree.leaves(grads)]
    print(loss.item(), gradient_norm(model, grads), largest, ratio, jnp.linalg.norm(flat).item())
    params, opt_state = optimizer_update(params, opt_state, grads)
