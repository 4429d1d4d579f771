import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class LionState(NamedTuple):
    exp_avg: optax.Params


def Lion(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
    """Evolved sign momentum."""

    def init(params):
        return LionState(exp_avg=jax.tree.map(jnp.zeros_like, params))

    def update(grads, state, params):
        def update_param(p, grad, exp_avg):
            p = p * (1 - lr * weight_decay)
            beta1, beta2 = betas
            update = exp_avg * beta1 + grad * (1 - beta1)
            update = jnp.sign(update)
            p = p - lr * update
            exp_avg = exp_avg * beta2
            exp_avg = exp_avg + (1 - beta2) * grad
            return p, exp_avg

        stepped = jax.tree.map(update_param, params, grads, state.exp_avg)
        new_params, exp_avg = jax.tree.transpose(jax.tree.structure(params), None, stepped)
        updates = jax.tree.map(jnp.subtract, new_params, params)
        return updates, LionState(exp_avg)

    return optax.GradientTransformation(init, update)


class AdamWState(NamedTuple):
    step: jax.Array
    exp_avg: optax.Params
    exp_avg_sq: optax.Params
    max_exp_avg_sq: optax.Params


def AdamW(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False):
    if lr < 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if not 0.0 <= betas[0] < 1.0:
        raise ValueError("Invalid beta parameter at index 0: {}".format(betas[0]))

    def init(params):
        return AdamWState(
            step=jnp.zeros([], jnp.int32),
            exp_avg=jax.tree.map(jnp.zeros_like, params),
            exp_avg_sq=jax.tree.map(jnp.zeros_like, params),
            max_exp_avg_sq=jax.tree.map(jnp.zeros_like, params),
        )

    def update(grads, state, params):
        step = state.step + 1

        def update_param(p, grad, exp_avg, exp_avg_sq, max_exp_avg_sq):
            # Perform stepweight decay
            p = p * (1 - lr * weight_decay)
            # Perform optimization step
            beta1, beta2 = betas
            bias_correction1 = 1 - beta1 ** step
            bias_correction2 = 1 - beta2 ** step
            # Decay the first and second moment running average coefficient
            exp_avg = exp_avg * beta1
            exp_avg = exp_avg + (1 - beta1) * grad
            exp_avg_sq = exp_avg_sq * beta2
            exp_avg_sq = exp_avg_sq + (1 - beta2) * grad * grad
            if amsgrad:
                # Maintains the maximum of all 2nd moment running avg. till now
                max_exp_avg_sq = jnp.maximum(max_exp_avg_sq, exp_avg_sq)
                denom = (jnp.sqrt(max_exp_avg_sq) / jnp.sqrt(bias_correction2)) + eps
            else:
                denom = (jnp.sqrt(exp_avg_sq) / jnp.sqrt(bias_correction2)) + eps
            step_size = lr / bias_correction1
            p = p - step_size * exp_avg / denom
            return p, exp_avg, exp_avg_sq, max_exp_avg_sq

        stepped = jax.tree.map(update_param, params, grads, state.exp_avg, state.exp_avg_sq, state.max_exp_avg_sq)
        new_params, exp_avg, exp_avg_sq, max_exp_avg_sq = jax.tree.transpose(
            jax.tree.structure(params), None, stepped
        )
        updates = jax.tree.map(jnp.subtract, new_params, params)
        return updates, AdamWState(step, exp_avg, exp_avg_sq, max_exp_avg_sq)

    return optax.GradientTransformation(init, update)


def clamp(x, min=None, max=None):
    """`jnp.clip`, with torch's gradient: at a bound it is 1, where that of `jnp.clip` is 0.5."""
    if min is not None:
        x = jnp.where(x >= min, x, jnp.maximum(jax.lax.stop_gradient(x), min))
    return x if max is None else jnp.where(x <= max, x, jnp.minimum(jax.lax.stop_gradient(x), max))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


def Descent(lr=0.1, clip=1.0):
    """No state at all."""

    def init(params):
        return optax.EmptyState()

    def update(grads, state, params=None):
        def update_param(grad):
            return -(lr * clamp(grad, -clip, clip))

        updates = jax.tree.map(update_param, grads)
        return updates, state

    return optax.GradientTransformation(init, update)


@jax.jit(static_argnames=("net", "optimizer"), donate_argnames=("net_params", "optimizer_state"))
def train_step_model(net, optimizer, net_params, optimizer_state, x, y):
    def loss_fn(net_params):
        loss = ((net.apply({"params": net_params}, x) - y) ** 2).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(net_params)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, net_params)
    net_params = optax.apply_updates(net_params, updates)
    return net_params, optimizer_state, {"loss": loss}


def train(net, net_params, optimizer, optimizer_state, scheduler, scheduler_steps):
    for step in range(20):
        net_params, optimizer_state, metrics = train_step_model(net, optimizer, net_params, optimizer_state, x, y)
        scheduler_steps += 1
        optimizer_state = optax.tree_utils.tree_set(
            optimizer_state, learning_rate=np.asarray(scheduler(scheduler_steps))
        )
    return net_params, optimizer_state, scheduler_steps


def train_without_scheduler(net, net_params, optimizer, optimizer_state):
    for step in range(20):
        net_params, optimizer_state, metrics = train_step_model(net, optimizer, net_params, optimizer_state, x, y)
    return net_params, optimizer_state


key = jax.random.key(0)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (32, 4))
key, subkey = jax.random.split(key)
y = jax.random.normal(subkey, (32, 1))
model = nn.Sequential((
    nn.Dense(8, **torch_init(fan_in=4)),
    nn.relu,
    nn.Dense(1, **torch_init(fan_in=8)),
))
key, subkey = jax.random.split(key)
model_params = model.init(subkey, x)["params"]
optimizer = optax.inject_hyperparams(lambda learning_rate: Lion(learning_rate, weight_decay=0.1))(
    learning_rate=1e-3
)
optimizer_state = optimizer.init(model_params)
scheduler = optax.exponential_decay(1e-3, transition_steps=10, decay_rate=0.5, staircase=True)
scheduler_steps = 0
model_params, optimizer_state, scheduler_steps = train(
    model, model_params, optimizer, optimizer_state, scheduler, scheduler_steps
)
second = nn.Sequential((
    nn.Dense(8, **torch_init(fan_in=4)),
    nn.relu,
    nn.Dense(1, **torch_init(fan_in=8)),
))
key, subkey = jax.random.split(key)
second_params = second.init(subkey, x)["params"]
optimizer_2 = optax.multi_transform(
    {"group_0": AdamW(1e-2, betas=(0.8, 0.9), weight_decay=0.0), "group_1": AdamW(1e-3, betas=(0.8, 0.9))},
    lambda params: {name: "group_0" if name == "layers_0" else "group_1" for name in params},
)
optimizer_2_state = optimizer_2.init(second_params)
second_params, optimizer_2_state = train_without_scheduler(second, second_params, optimizer_2, optimizer_2_state)


class Third(nn.Module):
    def setup(self):
        self.layers = nn.Sequential([nn.Dense(1, **torch_init(fan_in=4))])

    def __call__(self, x):
        return self.layers(x)


third = Third()
key, subkey = jax.random.split(key)
third_params = third.init(subkey, x)["params"]
optimizer_3 = Descent(0.1, clip=0.5)
optimizer_3_state = optimizer_3.init(third_params)
third_params, optimizer_3_state = train_without_scheduler(third, third_params, optimizer_3, optimizer_3_state)
