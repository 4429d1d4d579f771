import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset


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


def kl_div(log_probs, targets):
    """Pointwise Kullback-Leibler divergence of log-probabilities from probabilities; a target of 0 counts as 0."""
    positive = targets > 0
    log_targets = jnp.log(jnp.where(positive, targets, 1))
    return jnp.where(positive, targets * log_targets, 0) - targets * log_probs


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Teacher(nn.Module):
    training: bool = False

    def setup(self):
        self.hidden = nn.Dense(16, **torch_init(fan_in=6))
        self.norm = BatchNorm(use_running_average=not self.training, axis=1)
        self.drop = nn.Dropout(0.1, deterministic=not self.training)
        self.out = nn.Dense(3, **torch_init(fan_in=16))

    def __call__(self, x):
        return self.out(self.drop(nn.relu(self.norm(self.hidden(x)))))


class Student(nn.Module):
    def setup(self):
        self.out = nn.Dense(3, **torch_init(fan_in=6))

    def __call__(self, x):
        return self.out(x)


class Wide(nn.Module):
    def setup(self):
        self.hidden = nn.Dense(32, **torch_init(fan_in=6))
        self.out = nn.Dense(3, **torch_init(fan_in=32))

    def __call__(self, x):
        return self.out(jnp.tanh(self.hidden(x)))


@jax.jit(
    static_argnames=("model", "optimizer"),
    donate_argnames=("model_params", "model_batch_stats", "optimizer_state"),
)
def train_step_teacher(
    model, optimizer, model_params, model_batch_stats, optimizer_state, x, y, key
):
    def loss_fn(model_params, model_batch_stats):
        output, mutated = model.clone(training=True).apply(
            {"params": model_params, "batch_stats": model_batch_stats},
            x,
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        model_batch_stats = mutated["batch_stats"]
        loss = cross_entropy(output, y)
        return loss, model_batch_stats

    (loss, model_batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        model_params, model_batch_stats
    )
    updates, optimizer_state = optimizer.update(grads, optimizer_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, model_batch_stats, optimizer_state, {"loss": loss}


# one pass over the data
def train(model, model_params, model_batch_stats, loader, lr, key):
    optimizer = optax.sgd(lr, momentum=0.9)
    optimizer_state = optimizer.init(model_params)
    for x, y in loader:
        x, y = jnp.asarray(x), jnp.asarray(y)
        key, subkey = jax.random.split(key)
        model_params, model_batch_stats, optimizer_state, metrics = train_step_teacher(
            model, optimizer, model_params, model_batch_stats, optimizer_state, x, y, subkey
        )
        loss = metrics["loss"]
    return model_params, model_batch_stats, loss.item()


@jax.jit(
    static_argnames=("model", "optimizer"), donate_argnames=("model_params", "optimizer_state")
)
def train_step_student(model, optimizer, model_params, optimizer_state, x, y):
    def loss_fn(model_params):
        loss = cross_entropy(model.apply({"params": model_params}, x), y)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(model_params)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, optimizer_state, {"loss": loss}


def train_student(model, model_params, loader, lr):
    optimizer = optax.sgd(lr, momentum=0.9)
    optimizer_state = optimizer.init(model_params)
    for x, y in loader:
        x, y = jnp.asarray(x), jnp.asarray(y)
        model_params, optimizer_state, metrics = train_step_student(
            model, optimizer, model_params, optimizer_state, x, y
        )
        loss = metrics["loss"]
    return model_params, loss.item()


@jax.jit(static_argnames="model")
def eval_step(model, params, batch_stats, *inputs):
    return model.apply({"params": params, "batch_stats": batch_stats}, *inputs)


def accuracy(model, model_params, model_batch_stats, loader):
    return sum(
        (
            eval_step(model, model_params, model_batch_stats, jnp.asarray(x)).argmax(axis=1)
            == jnp.asarray(y)
        )
        .sum()
        .item()
        for x, y in loader
    )


@jax.jit(static_argnames="model")
def eval_step_2(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def accuracy_student(model, model_params, loader):
    return sum(
        (eval_step_2(model, model_params, jnp.asarray(x)).argmax(axis=1) == jnp.asarray(y))
        .sum()
        .item()
        for x, y in loader
    )


def count(model, model_params):
    return sum(p.size for p in jax.tree.leaves(model_params))


def fit(name, model, model_params, model_batch_stats, loader, key):
    model_params, model_batch_stats, loss = train(
        model, model_params, model_batch_stats, loader, 0.05, key
    )
    print(
        f"{name} ({count(model, model_params)}): {loss:.4f}, {accuracy(model, model_params, model_batch_stats, loader)} right"
    )
    return model_params, model_batch_stats


def fit_student(name, model, model_params, loader):
    model_params, loss = train_student(model, model_params, loader, 0.05)
    print(
        f"{name} ({count(model, model_params)}): {loss:.4f}, {accuracy_student(model, model_params, loader)} right"
    )
    return model_params


@jax.jit(
    static_argnames=("teacher", "student", "optimizer"),
    donate_argnames=("student_params", "optimizer_state"),
)
def train_step_wide(
    teacher,
    student,
    optimizer,
    teacher_params,
    teacher_batch_stats,
    student_params,
    optimizer_state,
    x,
):
    def loss_fn(student_params):
        wanted = jax.lax.stop_gradient(
            nn.softmax(
                teacher.apply({"params": teacher_params, "batch_stats": teacher_batch_stats}, x),
                axis=1,
            )
        )
        array = nn.log_softmax(student.apply({"params": student_params}, x), axis=1)
        loss = kl_div(array, wanted).sum() / array.shape[0]
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(student_params)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, student_params)
    student_params = optax.apply_updates(student_params, updates)
    return student_params, optimizer_state, {"loss": loss}


class Distillation:
    def __init__(self, teacher, teacher_params, teacher_batch_stats, student, student_params):
        self.teacher = teacher
        self.teacher_params = teacher_params
        self.teacher_batch_stats = teacher_batch_stats
        self.student = student
        self.student_params = student_params
        self.optimizer = optax.adam(0.01)
        self.optimizer_state = self.optimizer.init(student_params)

    def step(self, x):
        self.student_params, self.optimizer_state, metrics = train_step_wide(
            self.teacher,
            self.student,
            self.optimizer,
            self.teacher_params,
            self.teacher_batch_stats,
            self.student_params,
            self.optimizer_state,
            jnp.asarray(x),
        )
        loss = metrics["loss"]
        return loss.item()


torch.manual_seed(0)
key = jax.random.key(0)
loader = DataLoader(TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,))), batch_size=16)
teacher = Teacher()
student = Student()
wide = Wide()
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
variables = teacher.init(subkey, jnp.asarray(example[0]))
teacher_params, teacher_batch_stats = variables["params"], variables["batch_stats"]
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
student_params = student.init(subkey, jnp.asarray(example[0]))["params"]
key, subkey = jax.random.split(key)
example = loader.collate_fn([loader.dataset[0]])
wide_params = wide.init(subkey, jnp.asarray(example[0]))["params"]
key, subkey = jax.random.split(key)
teacher_params, teacher_batch_stats = fit(
    "teacher", teacher, teacher_params, teacher_batch_stats, loader, subkey
)
name = "student"
student_params = fit_student(name, student, student_params, loader)
name = "wide"
wide_params = fit_student(name, wide, wide_params, loader)
distillation = Distillation(teacher, teacher_params, teacher_batch_stats, wide, wide_params)
for x, _ in loader:
    print(distillation.step(x))
