import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

os.environ["CUDA_VISIBLE_DEVICES"] = "0"

device = jax.default_backend()
print(
    f"Using {device} device, {jax.devices()[0].device_kind if jax.default_backend() == 'gpu' else 'cpu'}"
)
use_cuda = jax.default_backend() == "gpu"


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


def on_all_devices(tree):
    """Puts a whole copy of each array on every device."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    def setup(self):
        self.fc = nn.Dense(3, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.fc(x)


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def evaluate(model, params, x, y):
    pred = eval_step(model, params, x).argmax(axis=1)
    return (pred == y).sum().item() / len(y)


def report(x, title="on"):
    print(f"{title} {jax.default_backend()}")
    if jax.default_backend() == "gpu":
        print(jax.devices()[0].device_kind)
    return x


key = jax.random.key(0)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (64, 4))
key, subkey = jax.random.split(key)
y = jax.random.randint(subkey, (64,), 0, 3)
model = Net()
key, subkey = jax.random.split(key)
params = on_all_devices(model.init(subkey, x))["params"]
optimizer = optax.sgd(0.1)
opt_state = on_all_devices(optimizer.init(params))


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y):
    def loss_fn(params):
        loss = cross_entropy(model.apply({"params": params}, x), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for step in range(20):
    params, opt_state, metrics = train_step(params, opt_state, x, y)
    loss = metrics["loss"]
    print(step, loss.item())
try:
    report(x)
except jax.errors.JaxRuntimeError as error:
    if "RESOURCE_EXHAUSTED" not in str(error):
        raise
    print("smaller, please")
print(
    evaluate(model, params, x, y),
    (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) // 2**20,
)


class Settings:
    device = jax.default_backend()


print(Settings.device, jnp.zeros(2))
