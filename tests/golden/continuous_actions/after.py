"""Soft actor-critic: continuous actions, twin critics with targets, a temperature that is trained as well."""

from typing import NamedTuple
from typing import Any

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

BATCH, GAMMA, TAU, DELAY, WARM_UP = 8, 0.99, 0.05, 2, 4


class Box:
    def __init__(self, low, high):
        self.low, self.high = np.array(low, np.float32), np.array(high, np.float32)
        self.shape = self.low.shape


class Plane:
    observation_space = Box([-9.0] * 3, [9.0] * 3)
    action_space = Box([-2.0, -1.0], [1.0, 1.0])

    def reset(self):
        self.x = np.random.randn(1, 3).astype(np.float32)
        return self.x

    def step(self, action):
        push = np.concatenate([action, action[:, :1]], axis=1)
        self.x = (0.9 * self.x + 0.1 * push + 0.1 * np.random.randn(1, 3)).astype(np.float32)
        return self.x, -np.abs(self.x).sum(axis=1)


class Samples(NamedTuple):
    observations: jax.Array
    actions: jax.Array
    next_observations: jax.Array
    rewards: jax.Array


class ReplayBuffer:
    def __init__(self):
        self.kept = []

    def add(self, *turn):
        self.kept.append(turn)

    def sample(self, size):
        rows = [self.kept[i] for i in np.random.randint(0, len(self.kept), size=size)]
        return Samples(*(jnp.array(np.concatenate(each)) for each in zip(*rows)))


@struct.dataclass
class Normal:
    """A normal distribution of each element."""

    loc: jax.Array
    scale: jax.Array

    @property
    def mean(self):
        return jnp.broadcast_to(self.loc, jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.scale)))

    @property
    def stddev(self):
        return self.scale + jnp.zeros_like(self.mean)

    @property
    def variance(self):
        return self.stddev**2

    def sample(self, key, shape=()):
        return self.loc + self.scale * jax.random.normal(key, (*shape, *self.mean.shape))

    def log_prob(self, value):
        return jax.scipy.stats.norm.logpdf(value, self.loc, self.scale)

    def entropy(self):
        return 0.5 + 0.5 * jnp.log(2 * jnp.pi) + jnp.log(self.stddev)

    def kl_divergence(self, other):
        ratio = (self.scale / other.scale) ** 2
        return (ratio + ((self.loc - other.loc) / other.scale) ** 2 - 1 - jnp.log(ratio)) / 2


def array_or_zeros(x, dtype):
    """What `FloatTensor(x)` and its like are in torch: the values of x; where x is a whole number, so many zeros."""
    return jnp.zeros(x, dtype) if isinstance(x, int | np.integer) else jnp.asarray(x, dtype)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Critic(nn.Module):
    env: Any

    def setup(self):
        self.fc1 = nn.Dense(
            32,
            **torch_init(
                fan_in=np.prod(self.env.observation_space.shape) + np.prod(self.env.action_space.shape)
            )
        )
        self.fc2 = nn.Dense(1, **torch_init(fan_in=32))

    def __call__(self, x, a):
        x = jnp.concatenate([x, a], axis=1)
        x = nn.relu(self.fc1(x))
        return self.fc2(x)


class Actor(nn.Module):
    env: Any

    def setup(self):
        self.fc1 = nn.Dense(32, **torch_init(fan_in=np.prod(self.env.observation_space.shape)))
        self.mean = nn.Dense(np.prod(self.env.action_space.shape), **torch_init(fan_in=32))
        self.log_std = nn.Dense(np.prod(self.env.action_space.shape), **torch_init(fan_in=32))
        self.bias = jnp.array((self.env.action_space.high + self.env.action_space.low) / 2.0)

    @property
    def scale(self):
        return jnp.array((self.env.action_space.high - self.env.action_space.low) / 2.0)

    def __call__(self, x):
        x = nn.relu(self.fc1(x))
        return self.mean(x), -5 + 3.5 * (jnp.tanh(self.log_std(x)) + 1)

    def get_action(self, x):
        mean, log_std = self(x)
        normal = Normal(mean, jnp.exp(log_std))
        x_t = normal.sample(self.make_rng("sample"))
        y_t = jnp.tanh(x_t)
        log_prob = normal.log_prob(x_t)
        log_prob -= jnp.log(self.scale * (1 - (y_t ** 2)) + 1e-6)
        return y_t * self.scale + self.bias, log_prob.sum(axis=1, keepdims=True)


np.random.seed(1)
key = jax.random.key(1)
env = Plane()
actor = Actor(env)
key, subkey = jax.random.split(key)
actor_params = actor.init(subkey, jnp.zeros((1, np.prod(env.observation_space.shape))))["params"]
qf1 = Critic(env)
key, subkey = jax.random.split(key)
qf1_params = qf1.init(
    subkey,
    jnp.zeros((1, np.prod(env.observation_space.shape))),
    jnp.zeros((1, np.prod(env.action_space.shape))),
)["params"]
qf2 = Critic(env)
key, subkey = jax.random.split(key)
qf2_params = qf2.init(
    subkey,
    jnp.zeros((1, np.prod(env.observation_space.shape))),
    jnp.zeros((1, np.prod(env.action_space.shape))),
)["params"]
qf1_target = Critic(env)
key, subkey = jax.random.split(key)
qf1_target_params = qf1_target.init(
    subkey,
    jnp.zeros((1, np.prod(env.observation_space.shape))),
    jnp.zeros((1, np.prod(env.action_space.shape))),
)["params"]
qf2_target = Critic(env)
key, subkey = jax.random.split(key)
qf2_target_params = qf2_target.init(
    subkey,
    jnp.zeros((1, np.prod(env.observation_space.shape))),
    jnp.zeros((1, np.prod(env.action_space.shape))),
)["params"]
qf1_target_params = jax.tree.map(jnp.copy, qf1_params)
qf2_target_params = jax.tree.map(jnp.copy, qf2_params)
q_optimizer = optax.adam(1e-2)
q_optimizer_state = q_optimizer.init((qf1_params, qf2_params))
actor_optimizer = optax.adam(1e-2)
actor_optimizer_state = actor_optimizer.init(actor_params)
target_entropy = -array_or_zeros(env.action_space.shape, jnp.float32).prod().item()
log_alpha = jnp.zeros(1)
alpha = jnp.exp(log_alpha).item()
alpha_optimizer = optax.adam(1e-2)
alpha_optimizer_state = alpha_optimizer.init(log_alpha)
rb = ReplayBuffer()
obs = env.reset()


@jax.jit
def actor_get_action(params, key, *inputs):
    return actor.apply({"params": params}, *inputs, method="get_action", rngs={"sample": key})


@jax.jit(donate_argnames=("qf1_params", "qf2_params", "q_optimizer_state"))
def train_step_q(
    actor_params,
    qf1_target_params,
    qf2_target_params,
    qf1_params,
    qf2_params,
    q_optimizer_state,
    next_observations,
    alpha,
    rewards,
    observations,
    actions,
    key,
):
    def loss_fn(qf1_params, qf2_params):
        next_actions, next_log_pi = actor.apply(
            {"params": actor_params}, next_observations, method="get_action", rngs={"sample": key}
        )
        q1_next = qf1_target.apply({"params": qf1_target_params}, next_observations, next_actions)
        q2_next = qf2_target.apply({"params": qf2_target_params}, next_observations, next_actions)
        next_value = jnp.minimum(q1_next, q2_next) - alpha * next_log_pi
        q_value = rewards.reshape(-1) + GAMMA * next_value.reshape(-1)
        next_actions, next_log_pi, q1_next, q2_next, next_value, q_value = jax.lax.stop_gradient(
            (next_actions, next_log_pi, q1_next, q2_next, next_value, q_value)
        )
        q1_loss = jnp.square(
            qf1.apply({"params": qf1_params}, observations, actions).reshape(-1) - q_value
        ).mean()
        q2_loss = jnp.square(
            qf2.apply({"params": qf2_params}, observations, actions).reshape(-1) - q_value
        ).mean()
        q_loss = q1_loss + q2_loss
        return q_loss

    loss, (qf1_grads, qf2_grads) = jax.value_and_grad(loss_fn, argnums=(0, 1))(qf1_params, qf2_params)
    updates, q_optimizer_state = q_optimizer.update(
        (qf1_grads, qf2_grads), q_optimizer_state, (qf1_params, qf2_params)
    )
    qf1_params, qf2_params = optax.apply_updates((qf1_params, qf2_params), updates)
    return qf1_params, qf2_params, q_optimizer_state, {"loss": loss}


@jax.jit(donate_argnames=("actor_params", "actor_optimizer_state"))
def train_step_actor(actor_params, qf1_params, qf2_params, actor_optimizer_state, observations, alpha, key):
    def loss_fn(actor_params):
        pi, log_pi = actor.apply(
            {"params": actor_params}, observations, method="get_action", rngs={"sample": key}
        )
        q_pi = jnp.minimum(
            qf1.apply({"params": qf1_params}, observations, pi),
            qf2.apply({"params": qf2_params}, observations, pi),
        )
        actor_loss = (alpha * log_pi - q_pi).mean()
        return actor_loss

    loss, grads = jax.value_and_grad(loss_fn)(actor_params)
    updates, actor_optimizer_state = actor_optimizer.update(grads, actor_optimizer_state, actor_params)
    actor_params = optax.apply_updates(actor_params, updates)
    return actor_params, actor_optimizer_state, {"loss": loss}


@jax.jit(donate_argnames="alpha_optimizer_state")
def train_step_alpha(actor_params, log_alpha, alpha_optimizer_state, observations, key):
    def loss_fn(log_alpha):
        _, log_pi = actor.apply(
            {"params": actor_params}, observations, method="get_action", rngs={"sample": key}
        )
        log_pi = jax.lax.stop_gradient(log_pi)
        alpha_loss = (-jnp.exp(log_alpha) * (log_pi + target_entropy)).mean()
        return alpha_loss

    loss, log_alpha_grad = jax.value_and_grad(loss_fn)(log_alpha)
    updates, alpha_optimizer_state = alpha_optimizer.update(log_alpha_grad, alpha_optimizer_state, log_alpha)
    log_alpha = optax.apply_updates(log_alpha, updates)
    return log_alpha, alpha_optimizer_state, {"loss": loss}


for step in range(24):
    key, subkey = jax.random.split(key)
    actions, _ = actor_get_action(actor_params, subkey, array_or_zeros(obs, jnp.float32))
    key, subkey = jax.random.split(key)
    actions += (actor.scale * 0.1) * jax.random.normal(subkey, (actor.scale * 0.1).shape)
    actions = np.asarray(actions).clip(env.action_space.low, env.action_space.high)
    next_obs, rewards = env.step(actions)
    rb.add(obs, actions, next_obs, rewards.astype(np.float32))
    obs = next_obs
    if step >= WARM_UP:
        data = rb.sample(BATCH)
        key, subkey = jax.random.split(key)
        qf1_params, qf2_params, q_optimizer_state, metrics = train_step_q(
            actor_params,
            qf1_target_params,
            qf2_target_params,
            qf1_params,
            qf2_params,
            q_optimizer_state,
            data.next_observations,
            alpha,
            data.rewards,
            data.observations,
            data.actions,
            subkey,
        )
        q_loss = metrics["loss"]

        if step % DELAY == 0:
            for _ in range(DELAY):
                key, subkey = jax.random.split(key)
                actor_params, actor_optimizer_state, metrics = train_step_actor(
                    actor_params,
                    qf1_params,
                    qf2_params,
                    actor_optimizer_state,
                    data.observations,
                    alpha,
                    subkey,
                )

                key, subkey = jax.random.split(key)
                log_alpha, alpha_optimizer_state, metrics = train_step_alpha(
                    actor_params, log_alpha, alpha_optimizer_state, data.observations, subkey
                )
                alpha = jnp.exp(log_alpha).item()

        qf1_target_params = jax.tree.map(
            lambda param, target_param: TAU * param + (1 - TAU) * target_param, qf1_params, qf1_target_params
        )
        qf2_target_params = jax.tree.map(
            lambda param, target_param: TAU * param + (1 - TAU) * target_param, qf2_params, qf2_target_params
        )
        print(f"{step} {q_loss.item():.4f} {alpha:.4f}")
