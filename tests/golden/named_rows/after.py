"""Parts of a row of layers that have names of their own, and a function that returns a list of blocks."""
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


class Residual(nn.Module):
    cin: int
    c: int
    use_1x1conv: bool = False
    strides: int = 1
    training: bool = False

    def setup(self):
        self.conv1 = nn.Conv(
            self.c,
            (3, 3),
            strides=(self.strides, self.strides),
            padding=1,
            **torch_init(fan_in=self.cin * 3 * 3)
        )
        self.conv2 = nn.Conv(self.c, (3, 3), padding=1, **torch_init(fan_in=self.c * 3 * 3))
        self.conv3 = (
            nn.Conv(
                self.c,
                (1, 1),
                strides=(self.strides, self.strides),
                padding="VALID",
                **torch_init(fan_in=self.cin)
            )
            if self.use_1x1conv
            else None
        )
        self.bn1 = BatchNorm(use_running_average=not self.training)
        self.bn2 = BatchNorm(use_running_average=not self.training)

    def __call__(self, X):
        Y = nn.relu(self.bn1(self.conv1(X.transpose(0, 2, 3, 1))))
        Y = self.bn2(self.conv2(Y))
        if self.conv3:
            X = self.conv3(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        Y = Y.transpose(0, 3, 1, 2) + X
        return nn.relu(Y)


def resnet_block(cin, c, num_residuals, first_block=False, training=False):
    blk = []
    for i in range(num_residuals):
        if i == 0 and not first_block:
            blk.append(Residual(cin, c, use_1x1conv=True, strides=2, training=training))
        else:
            blk.append(Residual(c, c, training=training))
    return blk


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.layers = nn.Sequential([
            nn.Sequential([
                nn.Conv(8, (7, 7), strides=(2, 2), padding=3, **torch_init(fan_in=1 * 7 * 7)),
                BatchNorm(use_running_average=not self.training),
                nn.relu,
                partial(nn.max_pool, window_shape=(3, 3), strides=(2, 2), padding=((1, 1), (1, 1))),
            ]),
            lambda x: x.transpose(0, 3, 1, 2),
            nn.Sequential(resnet_block(8, 8, 2, first_block=True, training=self.training)),
            nn.Sequential(resnet_block(8, 16, 2, training=self.training)),
            lambda x: x.transpose(0, 2, 3, 1),
            partial(adaptive_avg_pool, sizes=(1, 1)),
            lambda x: x.transpose(0, 3, 1, 2),
            partial(jax.lax.collapse, start_dimension=1),
            nn.Dense(10, **torch_init(fan_in=16)),
        ])

    def __call__(self, x):
        return self.layers(x.transpose(0, 2, 3, 1))


# the stem
net = Net()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
variables = net.init(subkey, jnp.zeros((8, 1, 32, 32)))
params, batch_stats = variables["params"], variables["batch_stats"]
key = jax.random.key(0)
opt = optax.sgd(0.05)
opt_state = opt.init(params)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (8, 1, 32, 32))
key, subkey = jax.random.split(key)
y = jax.random.randint(subkey, (8,), 0, 10)


@jax.jit(donate_argnames=("params", "batch_stats", "opt_state"))
def train_step(params, batch_stats, opt_state, x, y):
    def loss_fn(params, batch_stats):
        output, mutated = net.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats}, x, mutable=["batch_stats"]
        )
        batch_stats = mutated["batch_stats"]
        loss = cross_entropy(output, y)
        return loss, batch_stats

    (loss, batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch_stats)
    updates, opt_state = opt.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, {"loss": loss}


for step in range(5):
    params, batch_stats, opt_state, metrics = train_step(params, batch_stats, opt_state, x, y)
    loss = metrics["loss"]
    print(loss.item())
