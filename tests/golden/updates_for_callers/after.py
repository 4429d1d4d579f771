"""Functions and objects that go backward from what their callers compute: the update is all of that together."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


@jax.jit(static_argnames="optimizer", donate_argnames=("model_params", "optimizer_state"))
def optimizer_update(optimizer, model_params, optimizer_state, model_grads):
    updates, optimizer_state = optimizer.update(model_grads, optimizer_state, model_params)
    return optax.apply_updates(model_params, updates), optimizer_state


class NoamOpt:
    """Optimizer wrapper that implements the rate."""

    def __init__(self, model_size, warmup, optimizer, optimizer_state):
        self.optimizer = optimizer
        self.optimizer_state = optimizer_state
        self.model_size = model_size
        self.warmup = warmup
        self._step = 0

    def step(self, model_params, model_grads):
        self._step += 1
        self.optimizer_state = optax.tree_utils.tree_set(
            self.optimizer_state, learning_rate=np.asarray(self.rate())
        )
        model_params, self.optimizer_state = optimizer_update(
            self.optimizer, model_params, self.optimizer_state, model_grads
        )
        return model_params

    def rate(self):
        return self.model_size**-0.5 * min(self._step**-0.5, self._step * self.warmup**-1.5)


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


def kl_div(log_probs, targets):
    """Pointwise Kullback-Leibler divergence of log-probabilities from probabilities; a target of 0 counts as 0."""
    positive = targets > 0
    log_targets = jnp.log(jnp.where(positive, targets, 1))
    return jnp.where(positive, targets * log_targets, 0) - targets * log_probs


def scatter(x, axis, index, src, mode="set"):
    """Writes src to the places of `index` along an axis, as torch does: element i, j, … of the index is for row i, …"""
    rows = jnp.indices(index.shape, sparse=True)
    places = tuple(index if i == axis % x.ndim else row for i, row in enumerate(rows))
    if jnp.ndim(src):
        src = src[tuple(slice(n) for n in index.shape)]
    return getattr(x.at[places], mode)(src)


def set_where(x, mask, value):
    """torch's `x[mask] = value`, where the mask may have fewer axes than x: those are the first ones of x."""
    mask = jnp.expand_dims(mask, tuple(range(mask.ndim, x.ndim)))
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Generator(nn.Module):
    d_model: int
    vocab: int

    def setup(self):
        self.proj = nn.Dense(self.vocab, **torch_init(fan_in=self.d_model))

    def __call__(self, x):
        return nn.log_softmax(self.proj(x), axis=-1)


class Tagger(nn.Module):
    """A model whose forward pass leaves out its last part."""

    vocab: int
    d_model: int = 16

    def setup(self):
        self.embed = nn.Embed(self.vocab, self.d_model, embedding_init=nn.initializers.normal(1.0))
        self.fc = nn.Dense(self.d_model, **torch_init(fan_in=self.d_model))
        self.generator = Generator(self.d_model, self.vocab)

    def __call__(self, x):
        return nn.relu(self.fc(self.embed(x)))


class LabelSmoothing(nn.Module):
    size: Any
    padding: Any
    smoothing: Any

    def setup(self):
        self.criterion = lambda outputs, targets: kl_div(outputs, targets).sum()

    def __call__(self, x, target):
        dist = jnp.full_like(jax.lax.stop_gradient(x), self.smoothing / (self.size - 2))
        dist = scatter(dist, 1, jnp.expand_dims(jax.lax.stop_gradient(target), 1), 1.0 - self.smoothing)
        dist = dist.at[:, self.padding].set(0)
        mask = jax.lax.stop_gradient(target) == self.padding
        dist = set_where(dist, mask, 0.0)
        return self.criterion(x, dist)


class Batch:
    def __init__(self, src, trg):
        self.src = src
        self.trg = trg
        self.ntokens = (trg != 0).sum()

    @staticmethod
    def drawn(vocab, key):
        tokens = jax.random.randint(key, (8, 6), 0, vocab)
        return Batch(tokens[:, :-1], tokens[:, 1:])


@jax.jit(static_argnames=("model", "criterion"), donate_argnames="model_grads")
def forward_backward(model, criterion, model_params, model_grads, src, trg, ntokens):
    def loss_fn(model_params):
        out = model.apply({"params": model_params}, src)
        x = model.bind({"params": model_params}).generator(out)
        loss = criterion.apply({}, x.reshape(-1, x.shape[-1]), trg.reshape(-1)) / ntokens
        return loss

    loss, new_model_grads = jax.value_and_grad(loss_fn)(model_params)
    return jax.tree.map(jnp.add, model_grads, new_model_grads), {"loss": loss}


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def run_epoch(data_iter, model, model_params, model_grads, criterion, opt):
    total = 0.0
    for batch in data_iter:
        if opt is not None:
            model_grads, metrics = forward_backward(
                model, criterion, model_params, model_grads, batch.src, batch.trg, batch.ntokens
            )
            loss = metrics["loss"]
            model_params = opt.step(model_params, model_grads)
            model_grads = jax.tree.map(jnp.zeros_like, model_params)
        else:
            out = eval_step(model, model_params, batch.src)
            x = model.bind({"params": model_params}).generator(out)
            loss = criterion.apply({}, x.reshape(-1, x.shape[-1]), batch.trg.reshape(-1)) / batch.ntokens
        total += loss.item() * batch.ntokens
    return model_params, model_grads, total


def DecayingSGD(params, lr, momentum=0.9):
    """A class that only says how an optimizer is made."""
    optimizer = optax.inject_hyperparams(
        lambda learning_rate: optax.chain(
            optax.add_decayed_weights(0.1 * lr), optax.sgd(learning_rate, momentum=momentum)
        )
    )(learning_rate=lr)
    return optimizer


def WarmupLinearSchedule(optimizer, optimizer_state, warmup_steps, t_total, last_epoch=-1):
    """Linear warmup and then linear decay."""
    rest = t_total - warmup_steps

    def lr_lambda(step):
        if step < warmup_steps:
            return step / max(1, warmup_steps)
        return max(0.0, 1 - (step - warmup_steps) / max(1, rest))

    base_rate = float(optax.tree_utils.tree_get(optimizer_state, "learning_rate"))
    return (lambda epoch: base_rate * lr_lambda(epoch))


key = jax.random.key(0)
vocab = 11
model = Tagger(vocab)
key, subkey, subkey2 = jax.random.split(key, 3)
example = [Batch.drawn(vocab, subkey) for subkey in jax.random.split(subkey, 4)][0]
model_params = model.init(subkey2, example.src, method=lambda model, x: model.generator(model(x)))["params"]
criterion = LabelSmoothing(vocab, padding=0, smoothing=0.1)
optimizer_2 = optax.inject_hyperparams(lambda learning_rate: optax.adam(learning_rate, b2=0.98, eps=1e-9))(
    learning_rate=0
)
optimizer_2_state = optimizer_2.init(model_params)
model_grads = jax.tree.map(jnp.zeros_like, model_params)
optimizer = NoamOpt(16, 4, optimizer_2, optimizer_2_state)
for epoch in range(2):
    key, subkey = jax.random.split(key)
    train = [Batch.drawn(vocab, subkey) for subkey in jax.random.split(subkey, 4)]
    model_params, model_grads, result = run_epoch(train, model, model_params, model_grads, criterion, optimizer)
    print(result)
    model_params, model_grads, result = run_epoch(train, model, model_params, model_grads, criterion, None)
    print(result)

body = nn.Dense(8, **torch_init(fan_in=4))
key, subkey = jax.random.split(key)
body_params = body.init(subkey, jnp.zeros((8, 4)))["params"]


class Head(nn.Module):
    def setup(self):
        self.layers = nn.Dense(2, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.layers(x)


@jax.jit
def eval_step_body(params, *inputs):
    return body.apply({"params": params}, *inputs)


head = Head()
key, subkey = jax.random.split(key)
head_params = head.init(subkey, nn.relu(eval_step_body(body_params, jnp.zeros((8, 4)))))["params"]
both = optax.sgd(0.1)
both_state = both.init((body_params, head_params))


@jax.jit(donate_argnames=("body_params", "head_params", "both_state"))
def train_step_both(body_params, head_params, both_state, key):
    keys = jax.random.split(key, 2)

    def loss_fn(body_params, head_params):
        loss_2 = cross_entropy(
            head.apply(
                {"params": head_params},
                nn.relu(body.apply({"params": body_params}, jax.random.normal(keys[0], (8, 4)))),
            ),
            jax.random.randint(keys[1], (8,), 0, 2),
        )
        return loss_2

    loss, (body_grads, head_grads) = jax.value_and_grad(loss_fn, argnums=(0, 1))(body_params, head_params)
    updates, both_state = both.update((body_grads, head_grads), both_state, (body_params, head_params))
    body_params, head_params = optax.apply_updates((body_params, head_params), updates)
    return body_params, head_params, both_state, {"loss": loss}


for _ in range(3):
    key, subkey = jax.random.split(key)
    body_params, head_params, both_state, metrics = train_step_both(body_params, head_params, both_state, subkey)
    loss_2 = metrics["loss"]
    print(loss_2.item())


class Net(nn.Module):
    def setup(self):
        self.layers = nn.Dense(2, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.layers(x)


net = Net()
key, subkey = jax.random.split(key)
net_params = net.init(subkey, jnp.zeros((8, 4)))["params"]
sgd = DecayingSGD(jax.tree.leaves(net_params), lr=0.1)
sgd_state = sgd.init(net_params)
schedule = WarmupLinearSchedule(sgd, sgd_state, 1, 4)
schedule_steps = 0
sgd_state = optax.tree_utils.tree_set(sgd_state, learning_rate=np.asarray(schedule(0)))


@jax.jit(donate_argnames=("net_params", "sgd_state"))
def train_step_sgd(net_params, sgd_state, key):
    keys = jax.random.split(key, 2)

    def loss_fn(net_params):
        loss = cross_entropy(
            net.apply({"params": net_params}, jax.random.normal(keys[0], (8, 4))),
            jax.random.randint(keys[1], (8,), 0, 2),
        )
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(net_params)
    grads, _ = clip_grad_norm(grads, 1.0)
    updates, sgd_state = sgd.update(grads, sgd_state, net_params)
    net_params = optax.apply_updates(net_params, updates)
    return net_params, sgd_state, {"loss": loss}


for _ in range(3):
    key, subkey = jax.random.split(key)
    net_params, sgd_state, metrics = train_step_sgd(net_params, sgd_state, subkey)
    loss = metrics["loss"]
    schedule_steps += 1
    sgd_state = optax.tree_utils.tree_set(sgd_state, learning_rate=np.asarray(schedule(schedule_steps)))
    print(loss.item())
