"""Advantage actor-critic over short rollouts of several walks at once."""

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct


class Walks:
    """Agents that push points to the left or to the right; those that stray begin anew."""

    def __init__(self, seed, count):
        self.random = np.random.default_rng(seed)
        self.places = self.random.normal(size=(count, 4))

    def step(self, pushes):
        self.places = 0.9 * self.places + 0.2 * (pushes[:, None] - 1) + 0.1 * self.random.normal(size=self.places.shape)
        rewards = 1 - np.abs(self.places).sum(1)
        strayed = rewards < -2
        self.places[strayed] = self.random.normal(size=(strayed.sum(), 4))
        return self.places.copy(), rewards, strayed


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


class Agent(nn.Module):
    features: int
    actions: int
    temperature: float = 1.0

    def setup(self):
        self.body = nn.Sequential([
            nn.Dense(24, **torch_init(fan_in=self.features)),
            nn.tanh,
        ])
        self.policy = nn.Dense(self.actions, **torch_init(fan_in=24))
        self.value = nn.Dense(1, **torch_init(fan_in=24))
        self.scale = self.param("scale", nn.initializers.constant(1 / self.temperature), (1, self.actions))

    def __call__(self, seen):
        hidden = self.body(seen)
        return Categorical.from_logits(self.scale * self.policy(hidden)), self.value(hidden).squeeze(-1)


def advantages(values, rewards, going_on, last, gamma=0.95, decay=0.9):
    """Generalised advantage estimates."""
    values = values + [last]
    total, found = 0, []
    for turn in reversed(range(len(rewards))):
        error = rewards[turn] + gamma * going_on[turn] * values[turn + 1] - values[turn]
        total = error + gamma * decay * going_on[turn] * total
        found.insert(0, total)
    return found


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def score(agent, params, turns=4):
    """What the agent is rewarded with on walks of its own."""
    walks, rewarded = Walks(7, 2), 0
    seen = walks.places
    for _ in range(turns):
        choice, _ = eval_step(agent, params, jnp.array(seen, dtype=jnp.float32))
        seen, rewards, _ = walks.step(np.asarray(choice.probs.argmax(axis=-1)))
        rewarded += rewards.mean()
    return rewarded


key = jax.random.key(0)
walks = Walks(1, 5)
agent = Agent(4, 3)
key, subkey = jax.random.split(key)
params = agent.init(subkey, jnp.array(walks.places.copy(), dtype=jnp.float32))["params"]
optimizer = optax.rmsprop(3e-3, decay=0.99, eps_in_sqrt=False)
opt_state = optimizer.init(params)
seen = walks.places.copy()
scores = []


def log_prob_of(params, seen, push):
    choice, value = agent.apply({"params": params}, seen)
    log_prob = choice.log_prob(push)
    return log_prob


def entropy_of(params, seen):
    choice, value = agent.apply({"params": params}, seen)
    return choice.entropy().mean()


def value_of(params, seen):
    choice, value = agent.apply({"params": params}, seen)
    return value


@jax.jit
def eval_step_2(params, *inputs):
    return agent.apply({"params": params}, *inputs)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, seen, seens, rewards, going_on, pushes):
    def loss_fn(params):
        _, last = agent.apply({"params": params}, jnp.array(seen, dtype=jnp.float32))
        last = jax.lax.stop_gradient(last)
        all_values = jax.vmap(lambda seen: value_of(params, seen))(seens)
        # how much better each turn went than the critic expected
        gained = jax.lax.stop_gradient(jnp.stack(advantages(list(all_values), rewards, going_on, last)))
        all_log_probs = jax.vmap(lambda seen, push: log_prob_of(params, seen, push))(seens, pushes)
        log_probs = jnp.stack(all_log_probs)
        values = jnp.stack(all_values)
        expected = gained + jax.lax.stop_gradient(values)
        all_entropies = jax.vmap(lambda seen: entropy_of(params, seen))(seens)
        entropy = all_entropies.sum(axis=0)
        loss = -(log_probs * gained).mean() + 0.5 * ((expected - values) ** 2).mean() - 0.01 * entropy
        return loss.squeeze()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for update in range(8):
    log_probs, values, rewards, going_on = [], [], [], []
    for turn in range(6):
        seen = jnp.array(seen, dtype=jnp.float32)
        choice, value = eval_step_2(params, seen)
        key, subkey = jax.random.split(key)
        push = choice.sample(subkey)
        log_probs.append((seen, push))
        seen, reward, strayed = walks.step(np.asarray(push))
        rewards.append(jnp.array(reward, dtype=jnp.float32))
        going_on.append(jnp.array(~strayed, dtype=jnp.float32))
    seens, pushes = map(jnp.stack, zip(*log_probs))
    if update % 4 == 3:
        scores.append(np.mean([score(agent, params) for _ in range(2)]))
        print(f"score {scores[-1]:.3f}")

    params, opt_state, metrics = train_step(params, opt_state, seen, seens, rewards, going_on, pushes)
    loss = metrics["loss"]
    print(f"{update}: {loss.item():.4f}")
