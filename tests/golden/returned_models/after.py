import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
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


def in_mode(module, training, copies=None):
    """A module in train or eval mode, and the modules that it was given in the same."""
    if isinstance(module, tuple | list):
        return type(module)(in_mode(part, training, copies) for part in module)
    if not isinstance(module, nn.Module):
        return module
    copies = {} if copies is None else copies  # a module that was given twice stays one
    if id(module) not in copies:
        modes = {"training": training, "use_running_average": not training, "deterministic": not training}
        names = [
            field.name for field in dataclasses.fields(module) if field.init and field.name not in ("parent", "name")
        ]
        parts = {name: in_mode(getattr(module, name), training, copies) for name in names if name not in modes}
        copies[id(module)] = module.clone(**parts, **{name: modes[name] for name in names if name in modes})
    return copies[id(module)]


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    width: int = 8
    new_fc: Any = None
    training: bool = False

    def setup(self):
        self.body = nn.Sequential([
            nn.Dense(self.width, **torch_init(fan_in=4)),
            BatchNorm(use_running_average=not self.training, axis=1),
            nn.relu,
        ])
        self.fc = (
            nn.Dense(10, **torch_init(fan_in=self.width))
            if self.new_fc is None
            else self.new_fc.copy()
        )

    def __call__(self, x):
        return self.fc(self.body(x))


key = jax.random.key(0)
key, subkey = jax.random.split(key)
data = [
    (jax.random.normal(subkey, (6, 4)), jax.random.randint(subkey2, (6,), 0, 2))
    for subkey, subkey2 in jax.random.split(subkey, (3, 2))
]


@jax.jit(
    static_argnames=("model", "optimizer", "criterion"),
    donate_argnames=("model_params", "model_batch_stats", "optimizer_state"),
)
def train_step_model_head(
    model, optimizer, criterion, model_params, model_batch_stats, optimizer_state, inputs, labels
):
    def loss_fn(model_params, model_batch_stats):
        outputs, mutated = in_mode(model, True).apply(
            {"params": model_params, "batch_stats": model_batch_stats},
            inputs,
            mutable=["batch_stats"],
        )
        model_batch_stats = mutated["batch_stats"]
        loss = criterion(outputs, labels)
        return loss, (model_batch_stats, outputs)

    (loss, (model_batch_stats, outputs)), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        model_params, model_batch_stats
    )
    updates, optimizer_state = optimizer.update(grads, optimizer_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, model_batch_stats, optimizer_state, {"loss": loss, "outputs": outputs}


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


def train(
    model,
    model_params,
    model_batch_stats,
    criterion,
    optimizer,
    optimizer_state,
    scheduler,
    scheduler_steps,
    num_epochs=2,
):
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            running_loss = 0.0
            for inputs, labels in data:
                if phase == "train":
                    model_params, model_batch_stats, optimizer_state, metrics = (
                        train_step_model_head(
                            model,
                            optimizer,
                            criterion,
                            model_params,
                            model_batch_stats,
                            optimizer_state,
                            inputs,
                            labels,
                        )
                    )
                    loss = metrics["loss"]
                    outputs = metrics["outputs"]
                    preds = outputs.argmax(axis=1)
                else:
                    outputs = eval_step(model, model_params, model_batch_stats, inputs)
                    preds = outputs.argmax(axis=1)
                    loss = criterion(outputs, labels)
                running_loss += loss.item() * inputs.shape[0]
            if phase == "train":
                scheduler_steps += 1
                optimizer_state = optax.tree_utils.tree_set(
                    optimizer_state, learning_rate=np.asarray(scheduler(scheduler_steps))
                )
            print(f"{phase} Loss: {running_loss:.4f}")
    return model_params, model_batch_stats, optimizer_state, scheduler_steps, model


def show_classes(model, model_params, model_batch_stats):
    for inputs, labels in data:
        print(eval_step(model, model_params, model_batch_stats, inputs).argmax(axis=1))


model_whole = Net()
key, subkey = jax.random.split(key)
example = data[0]
variables = model_whole.init(subkey, example[0])
model_whole_params, model_whole_batch_stats = variables["params"], variables["batch_stats"]
model_whole = model_whole.clone(new_fc=nn.Dense(2, **torch_init(fan_in=8)))
key, subkey = jax.random.split(key)
example = data[0]
model_whole_params["fc"] = model_whole.init(subkey, example[0])["params"]["fc"]
criterion = cross_entropy
optimizer_whole = optax.inject_hyperparams(
    lambda learning_rate: optax.sgd(learning_rate, momentum=0.9)
)(learning_rate=0.001)
optimizer_whole_state = optimizer_whole.init(model_whole_params)
scheduler = optax.exponential_decay(0.001, transition_steps=7, decay_rate=0.1, staircase=True)
scheduler_steps = 0
model_whole_params, model_whole_batch_stats, optimizer_whole_state, scheduler_steps, model_whole = (
    train(
        model_whole,
        model_whole_params,
        model_whole_batch_stats,
        criterion,
        optimizer_whole,
        optimizer_whole_state,
        scheduler,
        scheduler_steps,
    )
)
show_classes(model_whole, model_whole_params, model_whole_batch_stats)

model_head = Net()
key, subkey = jax.random.split(key)
example = data[0]
variables = model_head.init(subkey, example[0])
model_head_params, model_head_batch_stats = variables["params"], variables["batch_stats"]
model_head = model_head.clone(new_fc=nn.Dense(2, **torch_init(fan_in=8)))
key, subkey = jax.random.split(key)
example = data[0]
model_head_params["fc"] = model_head.init(subkey, example[0])["params"]["fc"]
criterion = cross_entropy
optimizer_head = optax.inject_hyperparams(
    lambda learning_rate: optax.multi_transform(
        {"fc": optax.sgd(learning_rate, momentum=0.9), "frozen": optax.set_to_zero()},
        lambda params: {name: "frozen" if name == "body" else "fc" for name in params},
    )
)(learning_rate=0.001)
optimizer_head_state = optimizer_head.init(model_head_params)
scheduler = optax.exponential_decay(0.001, transition_steps=7, decay_rate=0.1, staircase=True)
scheduler_steps = 0
model_head_params, model_head_batch_stats, optimizer_head_state, scheduler_steps, model_head = (
    train(
        model_head,
        model_head_params,
        model_head_batch_stats,
        criterion,
        optimizer_head,
        optimizer_head_state,
        scheduler,
        scheduler_steps,
    )
)
show_classes(model_head, model_head_params, model_head_batch_stats)
