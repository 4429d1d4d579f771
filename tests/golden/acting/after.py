from collections import deque, namedtuple

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])
gamma = 0.99


class Walk:
    """A small environment: an agent that pushes a point to the left or to the right."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.place = self.random.normal(size=4)
        self.turns, self.length = 0, int(self.random.integers(3, 7))
        return self.place

    def step(self, action):
        self.turns += 1
        self.place = 0.9 * self.place + 0.2 * action + 0.1 * self.random.normal(size=4)
        return self.place, float(1 - np.abs(self.place).sum()), self.turns == self.length


@struct.dataclass
class Categorical:
    """Whole numbers from 0; `logits` are normalised log-probabilities on the last axis."""

    logits: jax.Array

    @classmethod
    def from_logits(cls, logits):
        return cls(jax.nn.log_softmax(logits))

    @classmethod
    def from_probs(cls, probs):
        probs, eps = probs / probs.sum(-1, keepdims=True), jnp.finfo(probs.dtype).eps
        return cls(jnp.log(probs.clip(eps, 1 - eps)))

    @property
    def probs(self):
        return jax.nn.softmax(self.logits)

    def sample(self, key, shape=()):
        return jax.random.categorical(key, self.logits, shape=(*shape, *self.logits.shape[:-1]))

    def log_prob(self, value):
        shape = jnp.broadcast_shapes(jnp.shape(value), self.logits.shape[:-1])
        index = jnp.broadcast_to(value, shape)[..., None].astype(int)
        logits = jnp.broadcast_to(self.logits, (*shape, self.logits.shape[-1]))
        return jnp.take_along_axis(logits, index, axis=-1).squeeze(-1)

    def entropy(self):
        return -(self.probs * jnp.maximum(self.logits, jnp.finfo(self.logits.dtype).min)).sum(-1)

    def kl_divergence(self, other):
        return (self.probs * (self.logits - other.logits)).sum(-1)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class ActorCritic(nn.Module):
    training: bool = False

    def setup(self):
        self.hidden = nn.Dense(16, **torch_init(fan_in=4))
        self.dropout = nn.Dropout(0.4, deterministic=not self.training)
        self.actor = nn.Dense(3, **torch_init(fan_in=16))
        self.critic = nn.Dense(1, **torch_init(fan_in=16))

    def __call__(self, x):
        x = nn.relu(self.dropout(self.hidden(x)))
        return nn.softmax(self.actor(x), axis=-1), self.critic(x)


key = jax.random.key(0)
env = Walk(0)
model = ActorCritic()
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((1, 4)))["params"]
saved_actions = []
rewards = []
optimizer = optax.adam(1e-2)
opt_state = optimizer.init(params)
eps = np.finfo(np.float32).eps.item()


@jax.jit
def forward_pass(params, key, *inputs):
    return model.clone(training=True).apply({"params": params}, *inputs, rngs={"dropout": key})


def select_action(params, state, key):
    state = jnp.asarray(state).astype(jnp.float32)
    key, dropout_key = jax.random.split(key)
    probs, value = forward_pass(params, dropout_key, state)
    m = Categorical.from_probs(probs)
    key, subkey = jax.random.split(key)
    action = m.sample(subkey)
    saved_actions.append((state, action, dropout_key))
    return action.item()


def action_of(params, state, action, key):
    probs, value = model.clone(training=True).apply(
        {"params": params}, state, rngs={"dropout": key}
    )
    m = Categorical.from_probs(probs)
    return m.log_prob(action), value


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, states, actions, dropout_keys, returns):
    def loss_fn(params):
        log_probs, values = jax.vmap(
            lambda state, action, dropout_key: action_of(params, state, action, dropout_key)
        )(states, actions, dropout_keys)

        # the value is what the critic expects
        policy_losses = jax.vmap(
            lambda log_prob, value, R: -log_prob * (R - jax.lax.stop_gradient(value).squeeze())
        )(log_probs, values, returns)
        value_losses = jax.vmap(lambda value, R: optax.huber_loss(value, R.reshape(1)).mean())(
            values, returns
        )
        loss = jnp.stack(policy_losses).sum() + jnp.stack(value_losses).sum()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def finish_episode(params, opt_state):
    R = 0
    returns = deque()
    for r in rewards[::-1]:
        R = r + gamma * R
        returns.appendleft(R)
    returns = jnp.array(returns)
    returns = (returns - returns.mean()) / (returns.std(ddof=1) + eps)
    states, actions, dropout_keys = map(jnp.stack, zip(*saved_actions))
    params, opt_state, metrics = train_step(
        params, opt_state, states, actions, dropout_keys, returns
    )
    loss = metrics["loss"]
    del rewards[:]
    del saved_actions[:]
    return params, opt_state, loss.item()


for episode in range(6):
    state, done = env.reset(), False
    while not done:
        key, subkey = jax.random.split(key)
        action = select_action(params, state, subkey)
        state, reward, done = env.step(action)
        rewards.append(reward)
    params, opt_state, result = finish_episode(params, opt_state)
    print(f"{episode}: {result:.4f}")
