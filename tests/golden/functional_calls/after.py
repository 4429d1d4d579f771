"""Model-agnostic meta-learning: a model is called with weights that a few steps of gradients have adapted."""

import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Regressor(nn.Module):
    hidden: int = 16

    def setup(self):
        self.body = nn.Sequential([
            nn.Dense(self.hidden, **torch_init(fan_in=1)),
            nn.relu,
            nn.Dense(self.hidden, **torch_init(fan_in=self.hidden)),
            nn.relu,
        ])
        self.head = nn.Dense(1, **torch_init(fan_in=self.hidden))

    def __call__(self, x):
        return self.head(self.body(x))


@jax.jit(static_argnames=("model", "optimizer", "adapt"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, adapt, params, opt_state, tasks):
    def loss_fn(params):
        total = 0.0
        for support_x, support_y, query_x, query_y in tasks:
            fast = adapt(params, support_x, support_y)
            total = total + jnp.square(model.apply({"params": fast}, query_x) - query_y).mean()
        loss = total / len(tasks)
        return loss

    loss, model_grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(model_grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


class MAML:
    def __init__(self, model, params, inner_lr=0.01, inner_steps=2, first_order=False):
        self.model = model
        self.params = params
        self.inner_lr = inner_lr
        self.inner_steps = inner_steps
        self.first_order = first_order
        self.optimizer = optax.adam(1e-3)
        self.opt_state = self.optimizer.init(self.params)

    def adapt(self, params, x, y):
        fast = params
        for _ in range(self.inner_steps):
            gradients = jax.grad(lambda fast: jnp.square(self.model.apply({"params": fast}, x) - y).mean())(
                fast
            )
            grads = gradients if not self.first_order else jax.lax.stop_gradient(gradients)
            fast = jax.tree.map(lambda p, g: p - self.inner_lr * g, fast, grads)
        return fast

    def step(self, tasks):
        self.params, self.opt_state, metrics = train_step(
            self.model, self.optimizer, self.adapt, self.params, self.opt_state, tasks
        )
        loss = metrics["loss"]
        return loss.item()


def sample_tasks(count, size, key):
    tasks = []
    for _ in range(count):
        key, subkey = jax.random.split(key)
        amplitude = jax.random.uniform(subkey, (1,)) * 4.9 + 0.1
        key, subkey = jax.random.split(key)
        x = jax.random.uniform(subkey, (2 * size, 1)) * 10 - 5
        y = amplitude * jnp.sin(x)
        tasks.append((x[:size], y[:size], x[size:], y[size:]))
    return tasks


parser = argparse.ArgumentParser()
parser.add_argument("--first-order", action="store_true")
args = parser.parse_args()
key = jax.random.key(0)
model = Regressor()
key, subkey, subkey2 = jax.random.split(key, 3)
example = sample_tasks(4, 10, subkey)[0]
params = model.init(subkey2, example[2])["params"]
maml = MAML(model, params, first_order=args.first_order)
for step in range(20):
    key, subkey = jax.random.split(key)
    print(step, maml.step(sample_tasks(4, 10, subkey)))
