"""Models that are made of torch's layers alone, outside any class."""
from functools import partial
from typing import Any

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


def cross_entropy(logits, labels, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Softmax cross entropy as torch has it: classes on axis 1, labels of `ignore_index` left out."""
    axis = min(1, logits.ndim - 1)
    log_probs = jax.nn.log_softmax(logits, axis)
    if labels.shape == logits.shape:  # probabilities
        losses = -(labels * log_probs).sum(axis)
        kept = jnp.ones_like(losses, bool)
    else:
        kept = labels != ignore_index
        index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
        losses = -jnp.take_along_axis(log_probs, index, axis).squeeze(axis)
    if label_smoothing:  # not 0 times the mean, which may be infinite
        losses = (1 - label_smoothing) * losses - label_smoothing * log_probs.mean(axis)
    losses = jnp.where(kept, losses, 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Model(nn.Module):
    training: bool = False

    def setup(self):
        self.layers = nn.Sequential([
            nn.Conv(4, (3, 3), padding="VALID", **torch_init(fan_in=1 * 3 * 3)),
            BatchNorm(use_running_average=not self.training),
            nn.relu,
            nn.Dropout(0.1, deterministic=not self.training),
            lambda x: x.transpose(0, 3, 1, 2),
            partial(jax.lax.collapse, start_dimension=1),
            nn.Dense(3, **torch_init(fan_in=144)),
        ])

    def __call__(self, x):
        return self.layers(x.transpose(0, 2, 3, 1))


model = Model()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
variables = model.init(subkey, jnp.zeros((5, 1, 8, 8)))
model_params, model_batch_stats = variables["params"], variables["batch_stats"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(model_params)
criterion = cross_entropy
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (5, 1, 8, 8))
y = jnp.array([0, 1, 2, 0, 1])


@jax.jit(donate_argnames=("model_params", "model_batch_stats", "opt_state"))
def train_step(model_params, model_batch_stats, opt_state, x, y, key):
    def loss_fn(model_params, model_batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": model_params, "batch_stats": model_batch_stats},
            x,
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        model_batch_stats = mutated["batch_stats"]
        loss = criterion(output, y)
        return loss, model_batch_stats

    (loss, model_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(model_params, model_batch_stats)
    updates, opt_state = optimizer.update(grads, opt_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, model_batch_stats, opt_state, {"loss": loss}


for step in range(3):
    key, subkey = jax.random.split(key)
    model_params, model_batch_stats, opt_state, metrics = train_step(
        model_params, model_batch_stats, opt_state, x, y, subkey
    )


@jax.jit
def eval_step_model(params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


print(eval_step_model(model_params, model_batch_stats, x).shape)


class Net(nn.Module):
    hidden: Any
    training: bool = False

    def setup(self):
        self.layers = nn.Sequential([
            nn.Dense(self.hidden, **torch_init(fan_in=3)),
            nn.Dropout(0.5, deterministic=not self.training),
            nn.Dense(1, **torch_init(fan_in=self.hidden)),
        ])

    def __call__(self, x):
        return self.layers(x)


@jax.jit(static_argnames="model")
def forward_pass(model, params, key, *inputs):
    return model.clone(training=True).apply({"params": params}, *inputs, rngs={"dropout": key})


def small(hidden):
    key = jax.random.key(1)
    net = Net(hidden=hidden)
    key, subkey = jax.random.split(key)
    net_params = net.init(subkey, jnp.ones((2, 3)))["params"]
    key, subkey = jax.random.split(key)
    return forward_pass(net, net_params, subkey, jnp.ones((2, 3)))


print(small(5).shape)
line = nn.Dense(2, **torch_init(fan_in=3))
key, subkey = jax.random.split(key)
line_params = line.init(subkey, jnp.ones((1, 3)))["params"]


@jax.jit
def eval_step_line(params, *inputs):
    return line.apply({"params": params}, *inputs)


print(eval_step_line(line_params, jnp.ones((1, 3))).shape)
relu = nn.relu
print(relu(jnp.ones(3)))
