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


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


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


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.hidden = nn.Dense(16, **torch_init(fan_in=6))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.drop = nn.Dropout(0.2, deterministic=not self.training)
        self.head = nn.Dense(3, **torch_init(fan_in=16))

    def __call__(self, x):
        return self.head(self.drop(nn.relu(self.norm(self.hidden(x)))))


@jax.jit(
    static_argnames=("model", "optimizer", "criterion", "clip"),
    donate_argnames=("params", "batch_stats", "opt_state"),
)
def train_step(
    model, optimizer, criterion, clip, params, batch_stats, opt_state, micro_batches, accumulation
):
    grads = jax.tree.map(jnp.zeros_like, params)

    def accumulate(carry, micro_batch):
        x, y, key = micro_batch
        grads, batch_stats = carry

        def loss_fn(params, batch_stats):
            model_output, mutated = model.clone(training=True).apply(
                {"params": params, "batch_stats": batch_stats},
                x,
                rngs={"dropout": key},
                mutable=["batch_stats"],
            )
            batch_stats = mutated["batch_stats"]
            loss = criterion(model_output, y) / accumulation
            return loss, batch_stats

        (loss, batch_stats), new_grads = jax.value_and_grad(loss_fn, has_aux=True)(
            params, batch_stats
        )
        return (jax.tree.map(jnp.add, grads, new_grads), batch_stats), {"loss": loss}

    micro_batches = jax.tree.map(lambda *arrays: jnp.stack(arrays), *micro_batches)
    (grads, batch_stats), metrics = jax.lax.scan(accumulate, (grads, batch_stats), micro_batches)
    if clip != 0.0:
        grads, _ = clip_grad_norm(grads, clip)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, metrics


@jax.jit(
    static_argnames=("model", "optimizer", "criterion"),
    donate_argnames=("params", "batch_stats", "opt_state"),
)
def train_step_2(
    model, optimizer, criterion, params, batch_stats, opt_state, micro_batches, accumulation, clip
):
    grads = jax.tree.map(jnp.zeros_like, params)

    def accumulate(carry, micro_batch):
        x, y, key = micro_batch
        grads, batch_stats = carry

        def loss_fn(params, batch_stats):
            output, mutated = model.clone(training=True).apply(
                {"params": params, "batch_stats": batch_stats},
                x,
                rngs={"dropout": key},
                mutable=["batch_stats"],
            )
            batch_stats = mutated["batch_stats"]
            loss = criterion(output, y) / accumulation
            return loss, batch_stats

        (loss, batch_stats), new_grads = jax.value_and_grad(loss_fn, has_aux=True)(
            params, batch_stats
        )
        return (jax.tree.map(jnp.add, grads, new_grads), batch_stats), {"loss": loss}

    micro_batches = jax.tree.map(lambda *arrays: jnp.stack(arrays), *micro_batches)
    (grads, batch_stats), metrics = jax.lax.scan(accumulate, (grads, batch_stats), micro_batches)
    grads, norm = clip_grad_norm(grads, clip)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, batch_stats, opt_state, metrics | {"norm": norm}


def main(accumulation=2, clip=1.0):
    key = jax.random.key(0)
    key, subkey = jax.random.split(key)
    data = jax.random.normal(subkey, (64, 6))
    key, subkey = jax.random.split(key)
    labels = jax.random.randint(subkey, (64,), 0, 3)

    def get_batch(key):
        chosen = jax.random.randint(key, (8,), 0, 64)
        return data[chosen], labels[chosen]

    model = Net()
    key, subkey, subkey2 = jax.random.split(key, 3)
    variables = model.init(subkey2, get_batch(subkey)[0])
    params, batch_stats = variables["params"], variables["batch_stats"]
    criterion = cross_entropy
    optimizer = optax.adamw(0.01, weight_decay=0.01)
    opt_state = optimizer.init(params)

    key, subkey = jax.random.split(key)
    x, y = get_batch(subkey)
    for step in range(3):
        # the next batch is fetched while the last one is at work
        micro_batches = []
        for micro_step in range(accumulation):
            key, subkey = jax.random.split(key)
            micro_batches.append((x, y, subkey))
            key, subkey = jax.random.split(key)
            x, y = get_batch(subkey)
        params, batch_stats, opt_state, metrics = train_step(
            model,
            optimizer,
            criterion,
            clip,
            params,
            batch_stats,
            opt_state,
            micro_batches,
            accumulation,
        )
        loss = metrics["loss"][-1]
        print(f"loss {loss.item() * accumulation:.4f}")

        # the losses are summed, the step follows at once
        total = 0.0
        losses = []
        micro_batches = []
        for _ in range(accumulation):
            key, subkey = jax.random.split(key)
            x, y = get_batch(subkey)
            key, subkey = jax.random.split(key)
            micro_batches.append((x, y, subkey))
        params, batch_stats, opt_state, metrics = train_step_2(
            model,
            optimizer,
            criterion,
            params,
            batch_stats,
            opt_state,
            micro_batches,
            accumulation,
            clip,
        )
        for loss in metrics["loss"]:
            losses.append(loss.item())
            total += loss.item()
        norm = metrics["norm"]
        print(f"total {total:.4f}, last {losses[-1]:.4f}, norm {norm:.4f}")


main()
