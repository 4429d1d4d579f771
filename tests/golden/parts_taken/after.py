from functools import partial

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


def adaptive_avg_pool(x, sizes):
    """Averages channel-last data to `sizes`, with torch's windows, which may overlap; None keeps an axis."""
    for axis, new in enumerate(sizes, 1):
        if new is None:
            continue
        old = x.shape[axis]
        first, last = np.arange(new) * old // new, -(-(np.arange(new) + 1) * old // new)
        inside = (np.arange(old) >= first[:, None]) & (np.arange(old) < last[:, None])
        weights = jnp.asarray(inside / inside.sum(1, keepdims=True), x.dtype)
        x = jnp.moveaxis(jnp.tensordot(weights, x, (1, axis), precision="highest"), 0, axis)
    return x


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    width: int
    classes: int = 10
    training: bool = False

    def setup(self):
        self.conv1 = nn.Conv(self.width, (3, 3), padding=1, **torch_init(fan_in=3 * 3 * 3))
        self.bn1 = BatchNorm(use_running_average=not self.training)
        self.relu = nn.relu
        self.features = nn.Sequential([
            nn.Conv(self.width, (3, 3), padding="VALID", **torch_init(fan_in=self.width * 3 * 3)),
            nn.relu,
            nn.Dropout(0.1, deterministic=not self.training),
        ])
        self.pool = partial(adaptive_avg_pool, sizes=(1, 1))
        self.fc = nn.Dense(self.classes, **torch_init(fan_in=self.width))

    def __call__(self, x):
        x = self.features(self.relu(self.bn1(self.conv1(x.transpose(0, 2, 3, 1)))))
        return self.fc(jax.lax.collapse(self.pool(x).transpose(0, 3, 1, 2), 1))


def small_net(weights=None, training=False):
    net = Net(8, training=training)
    if weights is not None:
        # net.load_state_dict(torch.load(weights))
        raise NotImplementedError(
            "MIG301: net.load_state_dict(torch.load(weights)): a part of a Flax module has no weights of its own: `migrate port-weights` puts a checkpoint among those that `init` gives the whole model"
        )
    return net


def last_layer(size, training=False):
    net = Net(8, classes=size, training=training).bind({})
    return net.fc.copy()


class Encoder(nn.Module):
    """All of a network but its last layer."""

    size: int
    training: bool = False

    def setup(self):
        net = small_net(training=self.training).bind({})
        relu = partial(nn.leaky_relu, negative_slope=0.1)
        # without the last layer
        self.body = nn.Sequential([
            net.conv1.copy(),
            net.bn1.copy(),
            relu,
            net.features.copy(),
            net.pool,
        ])
        self.linear = nn.Dense(self.size, **torch_init(fan_in=net.width))

    def __call__(self, x):
        x = self.body(x.transpose(0, 2, 3, 1))
        return self.linear(x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1))


class Stem(nn.Module):
    """Parts under names, of which some do not learn."""

    size: int
    training: bool = False

    def setup(self):
        net = Net(self.size, training=self.training).bind({})
        self.stem = nn.Sequential([
            net.conv1.copy(),
            net.bn1.copy(),
            net.relu,
        ])
        self.features, self.pool = net.features.copy(), net.pool

    def __call__(self, x):
        return jax.lax.collapse(
            self.pool(self.features(self.stem(x.transpose(0, 2, 3, 1)))).transpose(0, 3, 1, 2), 1
        )


class Cut(nn.Module):
    """Parts of parts."""

    size: int
    training: bool = False

    def setup(self):
        first = Net(self.size, training=self.training).bind({})
        self.first = nn.Sequential([
            first.conv1.copy(),
            first.bn1.copy(),
        ])
        net_model = Net(self.size, training=self.training).bind({})
        self.conv = net_model.features.layers[0].copy()
        frozen = small_net(weights=None, training=self.training).bind({})
        self.rest = nn.Sequential([
            frozen.features.copy(),
            frozen.pool,
        ])
        self.widen = nn.Conv(8, (1, 1), padding="VALID", **torch_init(fan_in=self.size))
        self.out = last_layer(self.size, training=self.training)

    def __call__(self, x):
        x = self.conv(nn.relu(self.first(x.transpose(0, 2, 3, 1))))
        return self.out(jax.lax.collapse(self.rest(self.widen(x)).transpose(0, 3, 1, 2), 1))


key = jax.random.key(0)
encoder = Encoder(6)
stem = Stem(6)
cut = Cut(6)
key, subkey = jax.random.split(key)
variables = encoder.init(subkey, jnp.zeros((4, 3, 8, 8)))
encoder_params, encoder_batch_stats = variables["params"], variables["batch_stats"]
key, subkey = jax.random.split(key)
variables = stem.init(subkey, jnp.zeros((4, 3, 8, 8)))
stem_params, stem_batch_stats = variables["params"], variables["batch_stats"]
key, subkey = jax.random.split(key)
variables = cut.init(subkey, jnp.zeros((4, 3, 8, 8)))
cut_params, cut_batch_stats = variables["params"], variables["batch_stats"]
optimizer = optax.multi_transform(
    {"trained": optax.sgd(0.1), "frozen": optax.set_to_zero()},
    lambda params: (
        "trained",
        {name: "frozen" if name == "stem" else "trained" for name in params[1]},
        {name: "frozen" if name == "rest" else "trained" for name in params[2]},
    ),
)
opt_state = optimizer.init((encoder_params, stem_params, cut_params))


@jax.jit(
    donate_argnames=(
        "encoder_params",
        "stem_params",
        "cut_params",
        "encoder_batch_stats",
        "stem_batch_stats",
        "cut_batch_stats",
        "opt_state",
    )
)
def train_step(
    encoder_params,
    encoder_batch_stats,
    stem_params,
    stem_batch_stats,
    cut_params,
    cut_batch_stats,
    opt_state,
    x,
    key,
):
    keys = jax.random.split(key, 3)

    def loss_fn(
        encoder_params,
        stem_params,
        cut_params,
        encoder_batch_stats,
        stem_batch_stats,
        cut_batch_stats,
    ):
        output, mutated = encoder.clone(training=True).apply(
            {"params": encoder_params, "batch_stats": encoder_batch_stats},
            x,
            rngs={"dropout": keys[0]},
            mutable=["batch_stats"],
        )
        encoder_batch_stats = mutated["batch_stats"]
        output_2, mutated = stem.clone(training=True).apply(
            {"params": stem_params, "batch_stats": stem_batch_stats},
            x,
            rngs={"dropout": keys[1]},
            mutable=["batch_stats"],
        )
        stem_batch_stats = mutated["batch_stats"]
        output_3, mutated = cut.clone(training=True).apply(
            {"params": cut_params, "batch_stats": cut_batch_stats},
            x,
            rngs={"dropout": keys[2]},
            mutable=["batch_stats"],
        )
        cut_batch_stats = mutated["batch_stats"]
        loss = ((output - output_2 * output_3) ** 2).mean()
        return loss, (encoder_batch_stats, stem_batch_stats, cut_batch_stats)

    (loss, (encoder_batch_stats, stem_batch_stats, cut_batch_stats)), (
        encoder_grads,
        stem_grads,
        cut_grads,
    ) = jax.value_and_grad(loss_fn, argnums=(0, 1, 2), has_aux=True)(
        encoder_params,
        stem_params,
        cut_params,
        encoder_batch_stats,
        stem_batch_stats,
        cut_batch_stats,
    )
    updates, opt_state = optimizer.update(
        (encoder_grads, stem_grads, cut_grads), opt_state, (encoder_params, stem_params, cut_params)
    )
    encoder_params, stem_params, cut_params = optax.apply_updates(
        (encoder_params, stem_params, cut_params), updates
    )
    return (
        encoder_params,
        stem_params,
        cut_params,
        encoder_batch_stats,
        stem_batch_stats,
        cut_batch_stats,
        opt_state,
        {"loss": loss},
    )


for step in range(6):
    key, subkey = jax.random.split(key)
    x = jax.random.normal(subkey, (4, 3, 8, 8))
    key, subkey = jax.random.split(key)
    (
        encoder_params,
        stem_params,
        cut_params,
        encoder_batch_stats,
        stem_batch_stats,
        cut_batch_stats,
        opt_state,
        metrics,
    ) = train_step(
        encoder_params,
        encoder_batch_stats,
        stem_params,
        stem_batch_stats,
        cut_params,
        cut_batch_stats,
        opt_state,
        x,
        subkey,
    )
    loss = metrics["loss"]
    print(loss.item())
