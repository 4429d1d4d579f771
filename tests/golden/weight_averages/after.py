"""Averages of weights by torch's own class: from some epoch on with a rate of their own, and batch statistics made anew
at the end; one that decays, with its buffers."""
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset


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


def mean_batch_stats(loader, model, params, batch_stats, momentum=0.1):
    """Batch statistics anew: the mean of those of all batches. `model` is in train mode; `momentum` is what a batch
    weighs in its layers."""
    empty = jax.tree.map(jnp.zeros_like, batch_stats)

    @jax.jit
    def weighed(params, x):
        return model.apply({"params": params, "batch_stats": empty}, x, mutable=["batch_stats"])[1]["batch_stats"]

    total, batches = empty, 0
    for batch in loader:
        x = batch[0] if isinstance(batch, list | tuple) else batch
        total = jax.tree.map(jnp.add, total, weighed(params, jnp.asarray(x)))
        batches += 1
    return jax.tree.map(lambda each: each / (momentum * batches), total)


def swa_schedule(swa_lr, anneal_epochs=10, linear=False):
    """To `swa_lr` in `anneal_epochs` steps, from whatever rate an optimizer has: each rate follows from the last."""

    def passed(step):
        share = max(0.0, min(1.0, step / anneal_epochs))
        return share if linear else (1 - math.cos(math.pi * share)) / 2

    def schedule(step, rate):
        before, now = passed(step - 1), passed(step)
        start = swa_lr if before == 1 else (rate - before * swa_lr) / (1 - before)
        return now * swa_lr + (1 - now) * start

    return schedule


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.conv = nn.Conv(4, (3, 3), padding="VALID", **torch_init(fan_in=1 * 3 * 3))
        self.norm = BatchNorm(use_running_average=not self.training)
        self.head = nn.Dense(2, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.head(nn.relu(self.norm(self.conv(x.transpose(0, 2, 3, 1)))).transpose(0, 3, 1, 2).mean(axis=(2, 3)))


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


def evaluate(net, net_params, net_batch_stats, loader):
    return sum(
        cross_entropy(eval_step(net, net_params, net_batch_stats, jnp.asarray(x)), jnp.asarray(y)).item()
        for x, y in loader
    )


torch.manual_seed(0)
key = jax.random.key(0)
loader = DataLoader(TensorDataset(torch.randn(24, 1, 6, 6), torch.randint(0, 2, (24,))), batch_size=8)
model = Net()
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
variables = model.init(subkey, jnp.asarray(example[0]))
model_params, model_batch_stats = variables["params"], variables["batch_stats"]
optimizer = optax.inject_hyperparams(lambda learning_rate: optax.sgd(learning_rate, momentum=0.9))(learning_rate=0.1)
opt_state = optimizer.init(model_params)
scheduler = lambda epoch: 0.0 + (((0.1 - 0.0) * (1 + math.cos((math.pi * epoch) / 5))) / 2)
scheduler_steps = 0
swa_model = model
swa_model_params = jax.tree.map(jnp.copy, model_params)
swa_model_batch_stats = jax.tree.map(jnp.copy, model_batch_stats)
swa_model_updates = 0
swa_scheduler = swa_schedule(0.05, anneal_epochs=2)
swa_scheduler_steps = 0
ema_model = model
ema_model_params = jax.tree.map(jnp.copy, model_params)
ema_model_batch_stats = jax.tree.map(jnp.copy, model_batch_stats)
ema_model_updates = 0


@jax.jit(donate_argnames=("model_params", "model_batch_stats", "opt_state"))
def train_step(model_params, model_batch_stats, opt_state, x, y):
    def loss_fn(model_params, model_batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": model_params, "batch_stats": model_batch_stats}, x, mutable=["batch_stats"]
        )
        model_batch_stats = mutated["batch_stats"]
        loss = cross_entropy(output, y)
        return loss, model_batch_stats

    (loss, model_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(model_params, model_batch_stats)
    updates, opt_state = optimizer.update(grads, opt_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, model_batch_stats, opt_state, {"loss": loss}


for epoch in range(6):
    for x, y in loader:
        x, y = jnp.asarray(x), jnp.asarray(y)
        model_params, model_batch_stats, opt_state, metrics = train_step(
            model_params, model_batch_stats, opt_state, x, y
        )
        ema_model_params = optax.incremental_update(model_params, ema_model_params, 0.2 if ema_model_updates else 1)
        ema_model_batch_stats = optax.incremental_update(
            model_batch_stats, ema_model_batch_stats, 0.2 if ema_model_updates else 1
        )
        ema_model_updates += 1
    if epoch > 2:
        swa_model_params = optax.incremental_update(model_params, swa_model_params, 1 / (swa_model_updates + 1))
        swa_model_batch_stats = jax.tree.map(jnp.copy, model_batch_stats)
        swa_model_updates += 1
        swa_scheduler_steps += 1
        opt_state = optax.tree_utils.tree_set(
            opt_state,
            learning_rate=np.asarray(
                swa_scheduler(swa_scheduler_steps, float(optax.tree_utils.tree_get(opt_state, "learning_rate")))
            ),
        )
    else:
        scheduler_steps += 1
        opt_state = optax.tree_utils.tree_set(opt_state, learning_rate=np.asarray(scheduler(scheduler_steps)))
    print(
        epoch,
        optax.tree_utils.tree_get(opt_state, "learning_rate").item(),
        evaluate(model, model_params, model_batch_stats, loader),
    )
swa_model_batch_stats = mean_batch_stats(
    loader, swa_model.clone(training=True), swa_model_params, swa_model_batch_stats
)
print(
    "averaged",
    evaluate(swa_model, swa_model_params, swa_model_batch_stats, loader),
    evaluate(ema_model, ema_model_params, ema_model_batch_stats, loader),
)
