"""Transfer learning: a frozen model gets other parts before it trains."""

import argparse
import dataclasses
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


class Backbone(nn.Module):
    width: int = 8
    classes: int = 10
    new_classifier_3: Any = None
    new_classifier: Any = None
    new_mix: Any = None
    new_stem: Any = None
    training: bool = False

    def setup(self):
        self.stem = (
            nn.Conv(self.width, (3, 3), padding=1, **torch_init(fan_in=3 * 3 * 3))
            if self.new_stem is None
            else self.new_stem.copy()
        )
        self.norm = BatchNorm(use_running_average=not self.training)
        self.mix = (
            nn.Dense(2 * self.width, kernel_init=nn.initializers.normal(0.01))
            if self.new_mix is None
            else self.new_mix.copy()
        )
        self.classifier = (
            nn.Sequential(
                [
                    nn.Dense(self.width, kernel_init=nn.initializers.normal(0.01)),
                    nn.relu,
                    nn.Dropout(0.5, deterministic=not self.training),
                    (
                        nn.Dense(self.classes, kernel_init=nn.initializers.normal(0.01))
                        if self.new_classifier_3 is None
                        else self.new_classifier_3.copy()
                    ),
                ]
            )
            if self.new_classifier is None
            else self.new_classifier.copy()
        )

    def __call__(self, x):
        x = nn.relu(self.norm(self.stem(x.transpose(0, 2, 3, 1)))).transpose(0, 3, 1, 2).mean(axis=(2, 3))
        return self.classifier(self.mix(x))


class Wrapped(nn.Module):
    classes: int
    training: bool = False

    def setup(self):
        backbone = Backbone(width=4, training=self.training)
        features = backbone.width
        backbone = backbone.clone(new_classifier=nn.Sequential([lambda x: x]))
        backbone = backbone.clone(new_mix=nn.Dense(2 * self.classes, **torch_init(fan_in=features)))
        self.head = nn.Dense(self.classes, **torch_init(fan_in=2 * self.classes))
        self.backbone = backbone

    def __call__(self, x):
        return self.head(self.backbone(x))


def get_model(num_classes):
    model = Backbone(classes=4)
    # gray images
    model = model.clone(new_stem=nn.Conv(8, (3, 3), padding=1, use_bias=False, **torch_init(fan_in=1 * 3 * 3)))
    in_features = model.width
    model = model.clone(new_mix=nn.Sequential((
        nn.Dense(16, **torch_init(fan_in=in_features)),
        BatchNorm(use_running_average=True, axis=1),
        nn.Dropout(0.1, deterministic=True),
    )))
    model = model.clone(new_classifier_3=nn.Dense(num_classes, **torch_init(fan_in=model.width)))
    return model


@jax.jit(
    static_argnames=("model", "optimizer", "criterion"),
    donate_argnames=("model_params", "model_batch_stats", "optimizer_state"),
)
def train_step_model(model, optimizer, criterion, model_params, model_batch_stats, optimizer_state, x, y, key):
    def loss_fn(model_params, model_batch_stats):
        output, mutated = in_mode(model, True).apply(
            {"params": model_params, "batch_stats": model_batch_stats},
            x,
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        model_batch_stats = mutated["batch_stats"]
        loss = criterion(output, y)
        return loss, model_batch_stats

    (loss, model_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(model_params, model_batch_stats)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, model_batch_stats, optimizer_state, {"loss": loss}


@jax.jit(
    static_argnames=("other", "teacher", "criterion"),
    donate_argnames=("other_params", "other_batch_stats", "teacher_state"),
)
def train_step_teacher(other, teacher, criterion, other_params, other_batch_stats, teacher_state, x, y, key):
    def loss_fn(other_params, other_batch_stats):
        output, mutated = in_mode(other, True).apply(
            {"params": other_params, "batch_stats": other_batch_stats},
            jnp.broadcast_to(x, (x.shape[0], 3, x.shape[2], x.shape[3])),
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        other_batch_stats = mutated["batch_stats"]
        distance = criterion(output, y)
        return distance, other_batch_stats

    (loss, other_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(other_params, other_batch_stats)
    updates, teacher_state = teacher.update(grads, teacher_state, other_params)
    other_params = optax.apply_updates(other_params, updates)
    return other_params, other_batch_stats, teacher_state, {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--classes", type=int, default=3)
    args = parser.parse_args()
    key = jax.random.key(0)
    model = get_model(args.classes)
    key, subkey = jax.random.split(key)
    example = [(jnp.zeros((4, 1, 8, 8)), jnp.zeros(4, dtype=jnp.int32)) for _ in range(4)][0]
    variables = model.init(subkey, example[0])
    model_params, model_batch_stats = variables["params"], variables["batch_stats"]
    optimizer = optax.multi_transform(
        {"trained": optax.adam(1e-2), "frozen": optax.set_to_zero()},
        lambda params: jax.tree.map_with_path(
            lambda path, _: (
                "frozen"
                if jax.tree_util.keystr(path, simple=True, separator="/").startswith(("norm/", "classifier/layers_0/"))
                else "trained"
            ),
            params,
        ),
    )
    optimizer_state = optimizer.init(model_params)
    criterion = (
        cross_entropy
        if args.classes > 1
        else lambda outputs, targets: optax.sigmoid_binary_cross_entropy(outputs, targets).mean()
    )
    key, subkey = jax.random.split(key)
    data = [
        (jax.random.normal(subkey, (4, 1, 8, 8)), jax.random.randint(subkey2, (4,), 0, 3))
        for subkey, subkey2 in jax.random.split(subkey, (4, 2))
    ]
    other = Wrapped(3)
    array = example[0]
    key, subkey = jax.random.split(key)
    example = data[0]
    variables = other.init(subkey, jnp.broadcast_to(array, (array.shape[0], 3, array.shape[2], array.shape[3])))
    other_params, other_batch_stats = variables["params"], variables["batch_stats"]
    teacher = optax.sgd(0.1)
    teacher_state = teacher.init(other_params)
    for epoch in range(args.epochs):
        for x, y in data:
            key, subkey = jax.random.split(key)
            model_params, model_batch_stats, optimizer_state, metrics = train_step_model(
                model, optimizer, criterion, model_params, model_batch_stats, optimizer_state, x, y, subkey
            )
            loss = metrics["loss"]
            print(loss.item())
            key, subkey = jax.random.split(key)
            other_params, other_batch_stats, teacher_state, metrics = train_step_teacher(
                other, teacher, criterion, other_params, other_batch_stats, teacher_state, x, y, subkey
            )
            distance = metrics["loss"]
            print(distance.item())
        print(
            sum(
                (eval_step(model, model_params, model_batch_stats, x).argmax(axis=1) == y).sum().item() for x, y in data
            )
        )


if __name__ == "__main__":
    main()
