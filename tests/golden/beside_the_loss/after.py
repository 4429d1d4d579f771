import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
key = jax.random.key(0)
loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 2)), batch_size=8)


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


def absolute(x):
    """|x|, whose gradient at 0 is 0, as in torch; that of `jnp.abs` is 1."""
    return jnp.where(x == 0, 0, jnp.abs(x))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.fc = nn.Dense(2, **torch_init(fan_in=3))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)

    def __call__(self, x):
        return self.norm(self.fc(x))


model = Net()
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
variables = model.init(subkey, jnp.asarray(example[0]))
params, batch_stats = variables["params"], variables["batch_stats"]
twice = jnp.array(2.0)
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)
total = 0.0


@jax.jit(donate_argnames=("params", "batch_stats", "opt_state"))
def train_step(params, batch_stats, opt_state, x, y, twice):
    def loss_fn(params, batch_stats):
        out, mutated = model.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats}, x, mutable=["batch_stats"]
        )
        batch_stats = mutated["batch_stats"]
        # neither is part of the loss
        shifted, mutated = model.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats}, x + 1, mutable=["batch_stats"]
        )
        batch_stats = mutated["batch_stats"]
        error = absolute(out - y).sum()
        out = out * 2
        loss = jnp.square(out - y).mean()
        first_loss = loss
        loss = loss / 4
        penalized = loss + 0.1 * (params["fc"]["kernel"].T ** 2).sum()
        penalized_sum = (penalized * twice).sum()
        return penalized_sum, (batch_stats, shifted, error, loss, first_loss, penalized)

    (penalized_sum, (batch_stats, shifted, error, loss, first_loss, penalized)), grads = (
        jax.value_and_grad(loss_fn, has_aux=True)(params, batch_stats)
    )
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return (
        params,
        batch_stats,
        opt_state,
        {
            "loss": penalized_sum,
            "shifted": shifted,
            "error": error,
            "loss_2": loss,
            "first_loss": first_loss,
            "penalized": penalized,
        },
    )


for x, y in loader:
    x, y = jnp.asarray(x), jnp.asarray(y)
    params, batch_stats, opt_state, metrics = train_step(
        params, batch_stats, opt_state, x, y, twice
    )
    shifted = metrics["shifted"]
    error = metrics["error"]
    loss = metrics["loss_2"]
    first_loss = metrics["first_loss"]
    penalized = metrics["penalized"]
    total += first_loss.item()
    print(loss.item(), penalized.item(), total, error.item(), shifted.sum().item())


@jax.jit
def eval_step(params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


print(eval_step(params, batch_stats, jnp.ones((1, 3))).sum().item())
