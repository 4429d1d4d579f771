import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct


class Walk:
    """An environment that changes in place what it has returned."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.place = self.random.normal(size=4)
        self.turns, self.length = 0, int(self.random.integers(3, 7))
        return self.place

    def step(self, action):
        self.turns += 1
        self.place *= 0.9
        self.place += 0.2 * action
        return self.place, float(1 - np.abs(self.place).sum()), self.turns == self.length


@jax.jit(static_argnames="model")
def forward_pass(model, params, key, *inputs):
    return model.clone(training=True).apply({"params": params}, *inputs, rngs={"dropout": key})


@jax.jit(static_argnames=("policy", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(policy, optimizer, params, opt_state, states, actions, dropout_keys, returns):
    def loss_fn(params):
        all_log_probs = jax.vmap(
            lambda state, action, dropout_key: log_prob_of(
                policy, params, state, action, dropout_key
            )
        )(states, actions, dropout_keys)
        policy_loss = jax.vmap(lambda log_prob, G: -log_prob * G)(all_log_probs, returns).sum(
            axis=0
        )
        values = jax.vmap(
            lambda state, dropout_key: entropy_of(policy, params, state, dropout_key)
        )(states, dropout_keys)
        entropy = jnp.stack(values).mean()
        bonus = 0
        bonus = bonus + jax.vmap(lambda value: 0.001 * value**2)(values).sum(axis=0)
        loss = policy_loss / len(all_log_probs) - 0.01 * entropy - bonus
        return loss.squeeze()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


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


def train(env, policy, params, optimizer, opt_state, episodes, key):
    for episode in range(episodes):
        state, done = env.reset(), False
        log_probs, rewards = [], []
        while not done:
            key, dropout_key = jax.random.split(key)
            logits = forward_pass(policy, params, dropout_key, jnp.array(state, dtype=jnp.float32))
            dist = Categorical.from_logits(logits)
            key, subkey = jax.random.split(key)
            action = dist.sample(subkey)
            log_probs.append((jnp.array(state), action, dropout_key))
            state, reward, done = env.step(action.item())
            rewards.append(reward)

        states, actions, dropout_keys = map(jnp.stack, zip(*log_probs))

        G = 0
        returns = []
        for r in reversed(rewards):
            G = r + 0.9 * G
            returns.insert(0, G)
        returns = jnp.array(returns)
        params, opt_state, metrics = train_step(
            policy, optimizer, params, opt_state, states, actions, dropout_keys, returns
        )
        loss = metrics["loss"]
        print(f"{episode}: {loss.item():.4f}")
    return params, opt_state


def entropy_of(policy, params, state, key):
    logits = policy.clone(training=True).apply(
        {"params": params}, jnp.array(state, dtype=jnp.float32), rngs={"dropout": key}
    )
    dist = Categorical.from_logits(logits)
    return dist.entropy()


def log_prob_of(policy, params, state, action, key):
    logits = policy.clone(training=True).apply(
        {"params": params}, jnp.array(state, dtype=jnp.float32), rngs={"dropout": key}
    )
    dist = Categorical.from_logits(logits)
    return dist.log_prob(action)


key = jax.random.key(0)


class Policy(nn.Module):
    training: bool = False

    def setup(self):
        self.layers = nn.Sequential([
            nn.Dense(16, **torch_init(fan_in=4)),
            nn.tanh,
            nn.Dropout(0.3, deterministic=not self.training),
            nn.Dense(3, **torch_init(fan_in=16)),
        ])

    def __call__(self, x):
        return self.layers(x)


policy = Policy()
key, subkey = jax.random.split(key)
params = policy.init(subkey, jnp.zeros((1, 4)))["params"]
optimizer = optax.sgd(0.05)
opt_state = optimizer.init(params)
key, subkey = jax.random.split(key)
params, opt_state = train(Walk(1), policy, params, optimizer, opt_state, 6, subkey)
