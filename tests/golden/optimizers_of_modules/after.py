"""Double Q-learning, where each network makes its own optimizer and loss, and an agent trains them."""

import numpy as np
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Memory:
    def __init__(self, size, shape):
        self.size = size
        self.count = 0
        self.states = np.zeros((size, *shape), dtype=np.float32)
        self.after = np.zeros((size, *shape), dtype=np.float32)
        self.actions = np.zeros(size, dtype=np.int64)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.ended = np.zeros(size, dtype=bool)

    def store(self, state, action, reward, after, ended):
        index = self.count % self.size
        self.states[index] = state
        self.actions[index] = action
        self.rewards[index] = reward
        self.after[index] = after
        self.ended[index] = ended
        self.count += 1

    def sample(self, batch_size):
        batch = np.random.choice(min(self.count, self.size), batch_size, replace=False)
        states, actions, rewards = self.states[batch], self.actions[batch], self.rewards[batch]
        after = self.after[batch]
        ended = self.ended[batch]
        return states, actions, rewards, after, ended


def largest(x, axis, keepdims=False):
    """The largest elements along an axis: of equal ones the first, which has the gradient, as in torch.

    The gradient of `x.max` goes to what equals the result: to nothing where XLA computes x twice and rounds otherwise.
    """
    values = jnp.take_along_axis(x, x.argmax(axis, keepdims=True), axis)
    return values if keepdims else values.squeeze(axis)


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


class QNetwork(nn.Module):
    lr: Any
    shape: Any
    width: int
    n_actions: int

    def setup(self):
        (in_features,) = self.shape
        self.fc = nn.Dense(self.width, **torch_init(fan_in=in_features))
        self.value = nn.Dense(1, **torch_init(fan_in=self.width))
        self.advantage = nn.Dense(self.n_actions, **torch_init(fan_in=self.width))
        self.device = jax.default_backend()

    def __call__(self, state):
        hidden = nn.relu(self.fc(state))
        return self.value(hidden), self.advantage(hidden)


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


@jax.jit(
    static_argnames=("q_eval_model", "q_next_model", "q_eval_optimizer", "q_eval_loss"),
    donate_argnames=("q_eval_params", "q_eval_optimizer_state"),
)
def train_step_q_eval(
    q_eval_model,
    q_next_model,
    q_eval_optimizer,
    q_eval_loss,
    q_eval_params,
    q_next_params,
    q_eval_optimizer_state,
    states,
    states_,
    indices,
    actions,
    ends,
    rewards,
    gamma,
):
    def loss_fn(q_eval_params):
        value, advantage = q_eval_model.apply({"params": q_eval_params}, states)
        value_, advantage_ = q_next_model.apply({"params": q_next_params}, states_)
        q_eval = (value + advantage - advantage.mean(axis=1, keepdims=True))[indices, actions]
        q_next = value_ + advantage_ - advantage_.mean(axis=1, keepdims=True)
        q_next = set_where(q_next, ends, 0.0)
        target = rewards + gamma * largest(q_next, axis=1)
        loss = q_eval_loss(q_eval, jax.lax.stop_gradient(target))
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(q_eval_params)
    updates, q_eval_optimizer_state = q_eval_optimizer.update(
        grads, q_eval_optimizer_state, q_eval_params
    )
    q_eval_params = optax.apply_updates(q_eval_params, updates)
    return q_eval_params, q_eval_optimizer_state, {"loss": loss}


class Agent:
    def __init__(self, lr, shape, n_actions, key, batch_size=8, gamma=0.99, replace_every=5):
        self.batch_size, self.gamma, self.replace_every = batch_size, gamma, replace_every
        self.steps = 0
        self.memory = Memory(100, shape)
        self.q_eval = QNetwork(lr, tuple(shape), 32, n_actions)
        key, subkey = jax.random.split(key)
        self.q_eval_params = self.q_eval.init(
            subkey, jnp.array(np.array([np.zeros((4,)).astype(np.float32)]))
        )["params"]
        self.q_eval_optimizer = optax.rmsprop(lr, decay=0.99, eps_in_sqrt=False)
        self.q_eval_optimizer_state = self.q_eval_optimizer.init(self.q_eval_params)
        self.q_eval_loss = lambda outputs, targets: jnp.square(outputs - targets).mean()
        self.q_next = QNetwork(lr, tuple(shape), 32, n_actions)
        key, subkey = jax.random.split(key)
        self.q_next_params = self.q_next.init(
            subkey, jnp.array(np.array([np.zeros((4,)).astype(np.float32)]))
        )["params"]
        self.q_next_optimizer = optax.rmsprop(lr, decay=0.99, eps_in_sqrt=False)
        self.q_next_optimizer_state = self.q_next_optimizer.init(self.q_next_params)
        self.q_next_loss = lambda outputs, targets: jnp.square(outputs - targets).mean()

    def choose_action(self, observation):
        state = jnp.array(np.array([observation]))
        _, advantage = eval_step(self.q_eval, self.q_eval_params, state)
        return advantage.argmax().item()

    def replace_target(self):
        if self.steps % self.replace_every == 0:
            self.q_next_params = jax.tree.map(jnp.copy, self.q_eval_params)

    def learn(self):
        if self.memory.count < self.batch_size:
            return None
        self.replace_target()
        state, action, reward, after, ended = self.memory.sample(self.batch_size)
        states = jnp.array(state)
        rewards = jnp.array(reward)
        ends = jnp.array(ended)
        actions = jnp.array(action)
        states_ = jnp.array(after)
        indices = np.arange(self.batch_size)
        self.q_eval_params, self.q_eval_optimizer_state, metrics = train_step_q_eval(
            self.q_eval,
            self.q_next,
            self.q_eval_optimizer,
            self.q_eval_loss,
            self.q_eval_params,
            self.q_next_params,
            self.q_eval_optimizer_state,
            states,
            states_,
            indices,
            actions,
            ends,
            rewards,
            self.gamma,
        )
        loss = metrics["loss"]
        self.steps += 1
        return loss.item()


key = jax.random.key(0)
if __name__ == "__main__":
    np.random.seed(0)
    key = jax.random.key(0)
    key, subkey = jax.random.split(key)
    agent = Agent(lr=5e-3, shape=[4], n_actions=2, key=subkey)
    observation = np.random.randn(4).astype(np.float32)
    for step in range(40):
        action = agent.choose_action(observation)
        after = np.random.randn(4).astype(np.float32)
        agent.memory.store(observation, action, float(after[0]) + action, after, step % 5 == 0)
        print(step, agent.learn())
        observation = after
