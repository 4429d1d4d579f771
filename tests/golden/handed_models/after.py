"""Models that become parts of another one, before and after they are trained themselves, and go on under their names."""
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


class Encoder(nn.Module):
    width: int = 8
    training: bool = False

    def setup(self):
        self.hidden = nn.Dense(self.width, **torch_init(fan_in=6))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)

    def __call__(self, x):
        return nn.relu(self.norm(self.hidden(x)))


class AutoEncoder(nn.Module):
    encoder: Any
    decoder: Any
    training: bool = False

    def setup(self):
        self.encode = self.encoder
        self.decode = self.decoder

    def __call__(self, x):
        return self.decode(self.encode(x))


class Classifier(nn.Module):
    body: Any
    classes: int
    training: bool = False

    def setup(self):
        self.head = nn.Dense(self.classes, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.head(self.body(x))


@jax.jit(
    static_argnames=("model", "optimizer"), donate_argnames=("model_params", "model_batch_stats", "optimizer_state")
)
def train_step_model(model, optimizer, model_params, model_batch_stats, optimizer_state, x, y):
    def loss_fn(model_params, model_batch_stats):
        output, mutated = in_mode(model, True).apply(
            {"params": model_params, "batch_stats": model_batch_stats}, x, mutable=["batch_stats"]
        )
        model_batch_stats = mutated["batch_stats"]
        loss = jnp.square(output - y).mean()
        return loss, model_batch_stats

    (loss, model_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(model_params, model_batch_stats)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, model_batch_stats, optimizer_state, {"loss": loss}


def train(model, model_params, model_batch_stats, optimizer, optimizer_state, x, y, steps):
    for _ in range(steps):
        model_params, model_batch_stats, optimizer_state, metrics = train_step_model(
            model, optimizer, model_params, model_batch_stats, optimizer_state, x, y
        )
        loss = metrics["loss"]
        print(loss.item())
    return model_params, model_batch_stats, optimizer_state


key = jax.random.key(0)
key, subkey, subkey2 = jax.random.split(key, 3)
x, y = jax.random.normal(subkey, (16, 6)), jax.random.normal(subkey2, (16, 3))

encoder = Encoder()
decoder = nn.Dense(6, **torch_init(fan_in=8))
model = AutoEncoder(encoder, decoder)
key, subkey = jax.random.split(key)
variables = model.init(subkey, x)
model_params, model_batch_stats = variables["params"], variables.get("batch_stats", {})
optimizer_2 = optax.sgd(0.1)
optimizer_2_state = optimizer_2.init(model_params)
model_params, model_batch_stats, optimizer_2_state = train(
    model, model_params, model_batch_stats, optimizer_2, optimizer_2_state, x, x, 2
)
print(model.bind({"params": model_params, "batch_stats": model_batch_stats}).encode(x).sum().item())

body = Encoder()
key, subkey = jax.random.split(key)
variables = body.init(subkey, x)
body_params, body_batch_stats = variables["params"], variables["batch_stats"]
optimizer = optax.sgd(0.1)
optimizer_state = optimizer.init(body_params)


@jax.jit(donate_argnames=("body_params", "body_batch_stats", "optimizer_state"))
def train_step_body(body_params, body_batch_stats, optimizer_state, x):
    def loss_fn(body_params, body_batch_stats):
        output, mutated = body.clone(training=True).apply(
            {"params": body_params, "batch_stats": body_batch_stats}, x, mutable=["batch_stats"]
        )
        body_batch_stats = mutated["batch_stats"]
        loss = jnp.square(output).mean()
        return loss, body_batch_stats

    (loss, body_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(body_params, body_batch_stats)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, body_params)
    body_params = optax.apply_updates(body_params, updates)
    return body_params, body_batch_stats, optimizer_state, {"loss": loss}


for _ in range(2):
    body_params, body_batch_stats, optimizer_state, metrics = train_step_body(
        body_params, body_batch_stats, optimizer_state, x
    )
    loss = metrics["loss"]
    print(loss.item())
classifier = Classifier(body, 3)
key, subkey = jax.random.split(key)
variables = classifier.init(subkey, x)
classifier_params, classifier_batch_stats = variables["params"], variables.get("batch_stats", {})
classifier_params["body"] = body_params
classifier_batch_stats["body"] = body_batch_stats
tuning = optax.multi_transform(
    {"classifier": optax.adam(0.01), "frozen": optax.set_to_zero()},
    lambda params: {name: "classifier" if name == "head" else "frozen" for name in params},
)
tuning_state = tuning.init(classifier_params)


@jax.jit(donate_argnames=("classifier_params", "classifier_batch_stats", "tuning_state"))
def train_step_tuning(classifier_params, classifier_batch_stats, tuning_state, x, y):
    def loss_fn(classifier_params, classifier_batch_stats):
        output, mutated = in_mode(classifier, True).apply(
            {"params": classifier_params, "batch_stats": classifier_batch_stats}, x, mutable=["batch_stats"]
        )
        classifier_batch_stats = mutated["batch_stats"]
        loss = jnp.square(output - y).mean()
        return loss, classifier_batch_stats

    (loss, classifier_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        classifier_params, classifier_batch_stats
    )
    updates, tuning_state = tuning.update(grads, tuning_state, classifier_params)
    classifier_params = optax.apply_updates(classifier_params, updates)
    return classifier_params, classifier_batch_stats, tuning_state, {"loss": loss}


for _ in range(2):
    classifier_params, classifier_batch_stats, tuning_state, metrics = train_step_tuning(
        classifier_params, classifier_batch_stats, tuning_state, x, y
    )
    loss = metrics["loss"]
    print(loss.item())
