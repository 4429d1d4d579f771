"""A tiny convolutional network: batch normalisation, dropout before the flatten, SGD with momentum."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class BatchNorm(nn.Module):
    """Torch's batch normalisation: the running variance is the unbiased one. Channel-last."""

    features: int
    training: bool = False

    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.initializers.ones, (self.features,))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        mean = self.variable("batch_stats", "mean", jnp.zeros, (self.features,))
        var = self.variable("batch_stats", "var", jnp.ones, (self.features,))
        if not self.training:
            return (x - mean.value) * jax.lax.rsqrt(var.value + 1e-5) * scale + bias
        axes = tuple(range(x.ndim - 1))
        batch_mean, batch_var = x.mean(axes), x.var(axes)
        if not self.is_initializing():
            n = x.size // self.features
            mean.value = 0.9 * mean.value + 0.1 * batch_mean
            var.value = 0.9 * var.value + 0.1 * batch_var * n / (n - 1)
        return (x - batch_mean) * jax.lax.rsqrt(batch_var + 1e-5) * scale + bias


class Features(nn.Module):
    training: bool = False

    def setup(self):
        self.layers_0 = nn.Conv(4, (3, 3), padding=1)
        self.layers_1 = BatchNorm(4, training=self.training)

    def __call__(self, x):
        return nn.max_pool(nn.relu(self.layers_1(self.layers_0(x))), (2, 2), (2, 2))


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.features = Features(training=self.training)
        self.drop = nn.Dropout(0.3, deterministic=not self.training)
        self.fc = nn.Dense(5)

    def __call__(self, x):
        x = self.drop(self.features(x.transpose(0, 2, 3, 1)))
        x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
        return nn.log_softmax(self.fc(x), axis=1)


key = jax.random.key(1)
images = jax.random.uniform(key, (40, 1, 6, 8))
labels = jax.random.randint(key, (40,), 0, 5)
model = Net()
variables = model.init(key, images[:1])
params, batch_stats = variables["params"], variables["batch_stats"]
optimizer = optax.sgd(0.05, momentum=0.9)
opt_state = optimizer.init(params)


@jax.jit
def train_step(params, batch_stats, opt_state, inputs, targets, key):
    def loss_fn(params):
        output, updated = model.clone(training=True).apply(
            {"params": params, "batch_stats": batch_stats}, inputs, rngs={"dropout": key}, mutable=["batch_stats"]
        )
        loss = -jnp.take_along_axis(output, targets[:, None], axis=1).mean()
        return loss, (updated["batch_stats"], {"loss": loss})

    (_, (batch_stats, metrics)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), batch_stats, opt_state, metrics


for epoch in range(3):
    key, order_key = jax.random.split(key)
    order = jax.random.permutation(order_key, 40)
    for i in range(0, 40, 10):
        batch = order[i : i + 10]
        key, step_key = jax.random.split(key)
        params, batch_stats, opt_state, metrics = train_step(
            params, batch_stats, opt_state, images[batch], labels[batch], step_key
        )
    output = model.apply({"params": params, "batch_stats": batch_stats}, images)
    accuracy = float((output.argmax(1) == labels).mean())
    print(f"epoch {epoch} accuracy {accuracy:.3f}")
