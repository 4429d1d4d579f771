"""Functions that make models, called by constructors: what they make is a part of the module there, and a model where the
script calls them. What is done with the weights of such a part is refused."""

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


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Encoder(nn.Module):
    width: int
    hidden: int = 8
    new_outside: Any = None
    training: bool = False

    def setup(self):
        self.inside = nn.Dense(self.hidden, **torch_init(fan_in=4))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.outside = (
            nn.Dense(self.width, **torch_init(fan_in=self.hidden))
            if self.new_outside is None
            else self.new_outside.copy()
        )

    def __call__(self, x):
        return self.outside(nn.relu(self.norm(self.inside(x))))


def _encoder(width, weights, training=False, **options):
    encoder = Encoder(width, **options, training=training)
    if weights is not None:
        # encoder.load_state_dict(torch.load(weights))
        raise NotImplementedError(
            "MIG301: encoder.load_state_dict(torch.load(weights)): a part of a Flax module has no weights of its own: `migrate port-weights` puts a checkpoint among those that `init` gives the whole model"
        )
    return encoder


def narrow(weights=None, training=False, **options):
    return _encoder(3, weights, **options, training=training)


def wide(weights=None, **options):
    return _encoder(12, weights, **options)


class Classifier(nn.Module):
    training: bool = False

    def setup(self):
        self.encoder = narrow(hidden=6, training=self.training)
        self.head = nn.Dense(2, **torch_init(fan_in=3))

    def __call__(self, x):
        return self.head(self.encoder(x))


def without_bias(training=False):
    encoder = Encoder(3, training=training)
    encoder = encoder.clone(new_outside=nn.Dense(3, use_bias=False, **torch_init(fan_in=8)))
    return encoder


class Pretrained(nn.Module):
    training: bool = False

    def setup(self):
        self.encoder = Encoder(3, training=self.training)
        # self.encoder.load_state_dict(torch.load("encoder.pt"))
        raise NotImplementedError(
            "MIG301: self.encoder.load_state_dict(torch.load(\"encoder.pt\")): a part of a Flax module has no weights of its own: `migrate port-weights` puts a checkpoint among those that `init` gives the whole model"
        )
        self.other = Encoder(3, training=self.training)
        self.third = Encoder(3, training=self.training)
        # self.third.half()
        raise NotImplementedError("MIG301: self.third.half(): a part of a Flax module has no weights of its own")
        self.fourth = without_bias(training=self.training)
        encoder = Encoder(3, training=self.training).bind({})
        self.inside = encoder.inside.copy()

    def __call__(self, x):
        return self.encoder(x) + self.other(x) + self.third(x)


model = Classifier()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
variables = model.init(subkey, jnp.zeros((5, 4)))
model_params, model_batch_stats = variables["params"], variables["batch_stats"]
teacher = wide()
key, subkey = jax.random.split(key)
variables = teacher.init(subkey, jnp.zeros((5, 4)))
teacher_params, teacher_batch_stats = variables["params"], variables["batch_stats"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(model_params)


@jax.jit(donate_argnames=("model_params", "model_batch_stats", "teacher_batch_stats", "opt_state"))
def train_step(model_params, model_batch_stats, teacher_params, teacher_batch_stats, opt_state, x):
    def loss_fn(model_params, model_batch_stats, teacher_batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": model_params, "batch_stats": model_batch_stats}, x, mutable=["batch_stats"]
        )
        model_batch_stats = mutated["batch_stats"]
        output_2, mutated = teacher.clone(training=True).apply(
            {"params": teacher_params, "batch_stats": teacher_batch_stats}, x, mutable=["batch_stats"]
        )
        teacher_batch_stats = mutated["batch_stats"]
        loss = ((output - jax.lax.stop_gradient(output_2).mean()) ** 2).mean()
        return loss, (model_batch_stats, teacher_batch_stats)

    (loss, (model_batch_stats, teacher_batch_stats)), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        model_params, model_batch_stats, teacher_batch_stats
    )
    updates, opt_state = optimizer.update(grads, opt_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, model_batch_stats, teacher_batch_stats, opt_state, {"loss": loss}


for _ in range(3):
    key, subkey = jax.random.split(key)
    x = jax.random.normal(subkey, (5, 4))
    model_params, model_batch_stats, teacher_batch_stats, opt_state, metrics = train_step(
        model_params, model_batch_stats, teacher_params, teacher_batch_stats, opt_state, x
    )
