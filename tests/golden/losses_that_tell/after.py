"""Losses that tell a board about their terms: from a method, from a function, through a method that only tells."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import wandb


@jax.jit(static_argnames=("optimizer", "self_loss"), donate_argnames=("model_params", "optimizer_state"))
def train_step_model(optimizer, self_loss, model_params, optimizer_state, x, y, weight):
    def loss_fn(model_params):
        # one update
        loss, error, penalty, accuracy = self_loss(model_params, x, y, weight)
        return loss, (error, penalty, accuracy)

    (loss, (error, penalty, accuracy)), grads = jax.value_and_grad(loss_fn, has_aux=True)(model_params)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, optimizer_state, {"loss": loss, "error": error, "penalty": penalty, "accuracy": accuracy}


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


class Trainer:
    def __init__(self, model, model_params, lr):
        self.model = model
        self.model_params = model_params
        self.optimizer = optax.sgd(lr)
        self.optimizer_state = self.optimizer.init(self.model_params)
        self.step = 0

    def tell(self, error, penalty):
        wandb.log({"error": error, "penalty": penalty}, step=self.step)

    def loss(self, model_params, x, y, weight):
        out = self.model.apply({"params": model_params}, x)
        error = cross_entropy(out, y)
        penalty = weight * jnp.square(out).mean()
        accuracy = jax.lax.stop_gradient((out.argmax(axis=1) == y).astype(jnp.float32).mean())
        return error + penalty, error, penalty, accuracy

    def fit(self, batches, weight):
        for x, y in batches:
            self.model_params, self.optimizer_state, metrics = train_step_model(
                self.optimizer, self.loss, self.model_params, self.optimizer_state, x, y, weight
            )
            error = metrics["error"]
            penalty = metrics["penalty"]
            accuracy = metrics["accuracy"]

            # what is plotted
            self.tell(error.item(), penalty)
            if self.step % 2 == 0:
                wandb.log({"accuracy": accuracy, "weight": weight}, step=self.step)
            self.step += 1


def distance(critic, critic_params, real, fake):
    there, here = (
        critic.apply({"params": critic_params}, real).mean(),
        critic.apply({"params": critic_params}, fake).mean(),
    )
    return here - there, there, here


key = jax.random.key(0)
key, subkey = jax.random.split(key)
batches = [
    (jax.random.normal(subkey, (8, 4)), jax.random.randint(subkey2, (8,), 0, 3))
    for subkey, subkey2 in jax.random.split(subkey, (3, 2))
]
model = nn.Dense(3, **torch_init(fan_in=4))
key, subkey = jax.random.split(key)
example = batches[0]
model_params = model.init(subkey, example[0])["params"]
Trainer(model, model_params, lr=0.1).fit(batches, weight=0.1)

critic = nn.Sequential((
    nn.Dense(8, **torch_init(fan_in=4)),
    nn.relu,
    nn.Dense(1, **torch_init(fan_in=8)),
))
key, subkey = jax.random.split(key)
example = batches[0]
critic_params = critic.init(subkey, example[0])["params"]
critic_optimizer = optax.adam(1e-3)
critic_optimizer_state = critic_optimizer.init(critic_params)


@jax.jit(donate_argnames=("critic_params", "critic_optimizer_state"))
def train_step_critic(critic_params, critic_optimizer_state, x, key):
    def loss_fn(critic_params):
        loss, there, here = distance(critic, critic_params, x, jax.random.normal(key, (8, 4)))
        loss = loss * 2
        return loss, (there, here)

    (loss, (there, here)), grads = jax.value_and_grad(loss_fn, has_aux=True)(critic_params)
    updates, critic_optimizer_state = critic_optimizer.update(grads, critic_optimizer_state, critic_params)
    critic_params = optax.apply_updates(critic_params, updates)
    return critic_params, critic_optimizer_state, {"loss": loss, "there": there, "here": here}


for x, _ in batches:
    key, subkey = jax.random.split(key)
    critic_params, critic_optimizer_state, metrics = train_step_critic(
        critic_params, critic_optimizer_state, x, subkey
    )
    there = metrics["there"]
    here = metrics["here"]
    print("distance", there.item() - here.item())
    wandb.log({"real": there, "fake": here})
