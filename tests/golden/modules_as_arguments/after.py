"""Classes and modules that constructors are given, and functions that fill the weights of whatever they are given."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


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


class Block(nn.Module):
    before: int
    after: int
    shortcut: Any = None
    training: bool = False

    def setup(self):
        self.conv = nn.Conv(
            self.after, (3, 3), padding=1, kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal")
        )
        self.norm = BatchNorm(use_running_average=not self.training)

    def __call__(self, x):
        out = self.norm(self.conv(x.transpose(0, 2, 3, 1)))
        if self.shortcut is not None:
            x = self.shortcut(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        return nn.relu(out.transpose(0, 3, 1, 2) + x)


class Tree(nn.Module):
    """Holds itself, down to a level."""

    block: Any
    before: int
    after: int
    level: int = 1
    training: bool = False

    def setup(self):
        if self.level == 1:
            shortcut = None
            if self.before != self.after:
                shortcut = nn.Conv(
                    self.after,
                    (1, 1),
                    padding="VALID",
                    kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal"),
                )
            self.left = self.block(self.before, self.after, shortcut, training=self.training)
            self.right = self.block(self.after, self.after, training=self.training)
        else:
            self.left = Tree(self.block, self.before, self.after, level=self.level - 1, training=self.training)
            self.right = Tree(self.block, self.after, self.after, level=self.level - 1, training=self.training)

    def __call__(self, x):
        return self.right(self.left(x))


class Head(nn.Module):
    """Hands on what nobody gives it."""

    width: int

    def setup(self):
        self.linear = nn.Dense(self.width, **torch_init(fan_in=self.width, kernel_init=nn.initializers.zeros))

    def __call__(self, x):
        return self.linear(x)


class Net(nn.Module):
    block: Any = Block
    training: bool = False

    def setup(self):
        self.small = Tree(self.block, 3, 8, training=self.training)
        self.large = Tree(self.block, 8, 8, level=2, training=self.training)
        self.head = Head(8)

    def __call__(self, x):
        return self.head(self.large(self.small(x)).mean(axis=(2, 3)))


net = Net()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
variables = net.init(subkey, jnp.ones((2, 3, 8, 8)))
params, batch_stats = variables["params"], variables.get("batch_stats", {})


@jax.jit
def forward_pass(params, batch_stats, *inputs):
    variables = {"params": params, "batch_stats": batch_stats}
    output, mutated = net.clone(training=True).apply(variables, *inputs, mutable=["batch_stats"])
    return output, mutated["batch_stats"]


output, batch_stats = forward_pass(params, batch_stats, jnp.ones((2, 3, 8, 8)))
print(output)
