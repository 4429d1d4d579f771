import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
key = jax.random.key(0)
loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 2)), batch_size=8)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    width: int = 4

    def setup(self):
        self.fc = nn.Dense(self.width, **torch_init(fan_in=3))
        self.out = nn.Dense(2, **torch_init(fan_in=self.width))

    def __call__(self, x):
        return self.out(jnp.tanh(self.fc(x)))


def build(model):
    body = optax.inject_hyperparams(
        lambda learning_rate: optax.multi_transform(
            {"fc": optax.sgd(learning_rate), "frozen": optax.set_to_zero()},
            lambda params: {name: "fc" if name == "fc" else "frozen" for name in params},
        )
    )(learning_rate=0.1)
    head = optax.inject_hyperparams(
        lambda learning_rate: optax.multi_transform(
            {"out": optax.adam(learning_rate), "frozen": optax.set_to_zero()},
            lambda params: {name: "frozen" if name == "fc" else "out" for name in params},
        )
    )(learning_rate=0.01)
    return [body, head]


@jax.jit(
    static_argnames=("model_wide", "optimizer_wide"),
    donate_argnames=("model_wide_params", "optimizer_wide_state"),
)
def train_step_wide(model_wide, optimizer_wide, model_wide_params, optimizer_wide_state, x, y):
    def loss_fn(model_wide_params):
        loss = jnp.square(model_wide.apply({"params": model_wide_params}, x) - y).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(model_wide_params)
    updates, optimizer_wide_state = optimizer_wide.update(
        grads, optimizer_wide_state, model_wide_params
    )
    model_wide_params = optax.apply_updates(model_wide_params, updates)
    return model_wide_params, optimizer_wide_state, {"loss": loss}


@jax.jit(
    static_argnames=("model_slim", "optimizer_slim"),
    donate_argnames=("model_slim_params", "optimizer_slim_state"),
)
def train_step_slim(model_slim, optimizer_slim, model_slim_params, optimizer_slim_state, x, y):
    def loss_fn(model_slim_params):
        loss = jnp.square(model_slim.apply({"params": model_slim_params}, x) - y).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(model_slim_params)
    updates, optimizer_slim_state = optimizer_slim.update(
        grads, optimizer_slim_state, model_slim_params
    )
    model_slim_params = optax.apply_updates(model_slim_params, updates)
    return model_slim_params, optimizer_slim_state, {"loss": loss}


class Pair:
    def __init__(self, key):
        self.model_wide = Net(8)
        key, subkey = jax.random.split(key)
        example = loader.collate_fn([loader.dataset[0]])
        self.model_wide_params = self.model_wide.init(subkey, jnp.asarray(example[0]))["params"]
        self.model_slim = Net(2)
        key, subkey = jax.random.split(key)
        example = loader.collate_fn([loader.dataset[0]])
        self.model_slim_params = self.model_slim.init(subkey, jnp.asarray(example[0]))["params"]
        self.models = {"wide": self.model_wide, "slim": self.model_slim}
        self.optimizer_wide = optax.sgd(0.1)
        self.optimizer_wide_state = self.optimizer_wide.init(self.model_wide_params)
        self.optimizer_slim = optax.sgd(0.1)
        self.optimizer_slim_state = self.optimizer_slim.init(self.model_slim_params)
        self.optimizers = {"wide": self.optimizer_wide, "slim": self.optimizer_slim}

    def step(self, x, y):
        losses = []
        self.model_wide_params, self.optimizer_wide_state, metrics = train_step_wide(
            self.model_wide,
            self.optimizer_wide,
            self.model_wide_params,
            self.optimizer_wide_state,
            x,
            y,
        )
        loss = metrics["loss"]
        losses.append(loss.item())
        self.model_slim_params, self.optimizer_slim_state, metrics = train_step_slim(
            self.model_slim,
            self.optimizer_slim,
            self.model_slim_params,
            self.optimizer_slim_state,
            x,
            y,
        )
        loss = metrics["loss"]
        losses.append(loss.item())
        return losses


@jax.jit(
    static_argnames=("model", "body", "head"),
    donate_argnames=("model_params", "body_state", "head_state"),
)
def train_step_body(model, body, head, model_params, body_state, head_state, x, y):
    def loss_fn(model_params):
        loss = jnp.square(model.apply({"params": model_params}, x) - y).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(model_params)
    updates, body_state = body.update(grads, body_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    updates, head_state = head.update(grads, head_state, model_params)
    model_params = optax.apply_updates(model_params, updates)
    return model_params, body_state, head_state, {"loss": loss}


def main(key):
    model = Net()
    key, subkey = jax.random.split(key)
    example = loader.collate_fn([loader.dataset[0]])
    model_params = model.init(subkey, jnp.asarray(example[0]))["params"]
    body, head = build(model)
    body_state = body.init(model_params)
    head_state = head.init(model_params)
    scheduler_1 = optax.exponential_decay(0.1, transition_steps=2, decay_rate=0.1, staircase=True)
    scheduler_1_steps = 0
    scheduler_2 = optax.exponential_decay(0.01, transition_steps=2, decay_rate=0.1, staircase=True)
    scheduler_2_steps = 0
    key, subkey = jax.random.split(key)
    pair = Pair(subkey)
    for x, y in loader:
        x, y = jnp.asarray(x), jnp.asarray(y)
        model_params, body_state, head_state, metrics = train_step_body(
            model, body, head, model_params, body_state, head_state, x, y
        )
        loss = metrics["loss"]
        scheduler_1_steps += 1
        body_state = optax.tree_utils.tree_set(
            body_state, learning_rate=np.asarray(scheduler_1(scheduler_1_steps))
        )
        scheduler_2_steps += 1
        head_state = optax.tree_utils.tree_set(
            head_state, learning_rate=np.asarray(scheduler_2(scheduler_2_steps))
        )
        print(loss.item(), pair.step(x, y))


if __name__ == "__main__":
    key, subkey = jax.random.split(key)
    main(subkey)
