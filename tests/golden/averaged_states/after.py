"""Averages of all that a state dict has, weights and batch statistics, as people write them."""

import math
from copy import deepcopy

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class BatchNorm(nn.Module):
    """Batch normalisation with torch's running statistics: the variance is the unbiased one."""

    use_running_average: bool
    momentum: float = 0.1
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = -1
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        features = x.shape[self.axis]
        axis = self.axis % x.ndim
        others = tuple(i for i in range(x.ndim) if i != axis)
        shape = [features if i == axis else 1 for i in range(x.ndim)]
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, features)
        running_var = self.variable("batch_stats", "var", jnp.ones, features)
        if self.use_running_average:
            mean, var = running_mean.value, running_var.value
        else:
            mean = x.mean(others)
            var = jnp.square(x - mean.reshape(shape)).mean(others)
            if not self.is_initializing():
                n = x.size // features
                m = self.momentum
                running_mean.value = (1 - m) * running_mean.value + m * jax.lax.stop_gradient(mean)
                running_var.value = (1 - m) * running_var.value + m * jax.lax.stop_gradient(var) * n / (n - 1)
        y = (x - mean.reshape(shape)) * jax.lax.rsqrt(var + self.epsilon).reshape(shape)
        if self.affine:
            y = y * self.param("scale", self.scale_init, (features,)).reshape(shape)
            y = y + self.param("bias", self.bias_init, (features,)).reshape(shape)
        return y


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.fc1 = nn.Dense(16, **torch_init(fan_in=4))
        self.bn = BatchNorm(use_running_average=not self.training, axis=1)
        self.fc2 = nn.Dense(1, **torch_init(fan_in=16))

    def __call__(self, x):
        return self.fc2(nn.relu(self.bn(self.fc1(x))))


class RampedEMA:
    def __init__(self, model, model_params, model_batch_stats, decay=0.9999, tau=2000, updates=0):
        self.ema = model
        self.ema_params = jax.tree.map(jnp.copy, model_params)
        self.ema_batch_stats = jax.tree.map(jnp.copy, model_batch_stats)
        self.updates = updates
        self.decay = lambda x: decay * (1 - math.exp(-x / tau))

    def update(self, model, model_params, model_batch_stats):
        self.updates += 1
        d = self.decay(self.updates)
        self.ema_params = jax.tree.map(
            lambda v, weight: v * d + (1 - d) * weight, self.ema_params, model_params
        )
        self.ema_batch_stats = jax.tree.map(
            lambda v, weight: v * d + (1 - d) * weight, self.ema_batch_stats, model_batch_stats
        )


class ModelEma:
    def __init__(self, model, model_params, model_batch_stats, decay=0.9999, device=""):
        self.ema = model
        self.ema_params = jax.tree.map(jnp.copy, model_params)
        self.ema_batch_stats = jax.tree.map(jnp.copy, model_batch_stats)
        self.decay = decay
        self.device = device
        self.ema_has_module = False

    def update(self, model, model_params, model_batch_stats):
        needs_module = False
        self.ema_params = jax.tree.map(
            lambda ema_v, weight: ema_v * self.decay + (1.0 - self.decay) * weight,
            self.ema_params,
            model_params,
        )
        self.ema_batch_stats = jax.tree.map(
            lambda ema_v, weight: ema_v * self.decay + (1.0 - self.decay) * weight,
            self.ema_batch_stats,
            model_batch_stats,
        )


def update_average(
    average, average_params, average_batch_stats, model, model_params, model_batch_stats, decay
):
    average_params = jax.tree.map(
        lambda a, m: a * decay + (1 - decay) * m, average_params, model_params
    )
    average_batch_stats = jax.tree.map(
        lambda a, m: a * decay + (1 - decay) * m, average_batch_stats, model_batch_stats
    )
    return average_params, average_batch_stats


key = jax.random.key(0)
model = Net()
key, subkey = jax.random.split(key)
variables = model.init(subkey, jnp.zeros((64, 4)))
model_params, model_batch_stats = variables["params"], variables["batch_stats"]
ramped = RampedEMA(model, model_params, model_batch_stats, decay=0.9, tau=5)
ema = ModelEma(model, model_params, model_batch_stats, decay=0.8)
average = model
average_params = jax.tree.map(jnp.copy, model_params)
average_batch_stats = jax.tree.map(jnp.copy, model_batch_stats)
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(model_params)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (64, 4))
y = x.sum(axis=1, keepdims=True)


@jax.jit(donate_argnames=("model_params", "model_batch_stats", "opt_state"))
def train_step(model_params, model_batch_stats, opt_state, x, y):
    def loss_fn(model_params, model_batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": model_params, "batch_stats": model_batch_stats}, x, mutable=["batch_stats"]
        )
        model_batch_stats = mutated["batch_stats"]
        loss = ((output - y) ** 2).mean()
        return loss, model_batch_stats

    (loss, model_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        model_params, model_batch_stats
    )
    updates_2, opt_state = optimizer.update(grads, opt_state, model_params)
    model_params = optax.apply_updates(model_params, updates_2)
    return model_params, model_batch_stats, opt_state, {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


@jax.jit
def eval_step_average(params, batch_stats, *inputs):
    return average.apply({"params": params, "batch_stats": batch_stats}, *inputs)


for step in range(10):
    model_params, model_batch_stats, opt_state, metrics = train_step(
        model_params, model_batch_stats, opt_state, x, y
    )
    loss = metrics["loss"]
    ramped.update(model, model_params, model_batch_stats)
    ema.update(model, model_params, model_batch_stats)
    average_params, average_batch_stats = update_average(
        average, average_params, average_batch_stats, model, model_params, model_batch_stats, 0.7
    )
    errors = [
        ((eval_step(ramped.ema, ramped.ema_params, ramped.ema_batch_stats, x) - y) ** 2)
        .mean()
        .item(),
        ((eval_step(ema.ema, ema.ema_params, ema.ema_batch_stats, x) - y) ** 2).mean().item(),
        ((eval_step_average(average_params, average_batch_stats, x) - y) ** 2).mean().item(),
    ]
    print(step, loss.item(), errors[0], errors[1], errors[2])
