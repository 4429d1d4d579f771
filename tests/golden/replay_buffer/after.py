"""Q-learning from a replay buffer, whose samples are a named tuple of tensors, with a target network."""

import random
from typing import NamedTuple

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Samples(NamedTuple):
    observations: jax.Array
    actions: jax.Array
    next_observations: jax.Array
    dones: jax.Array
    rewards: jax.Array


class ReplayBuffer:
    def __init__(self, size, obs_dim, device="cpu"):
        self.observations = np.zeros((size, obs_dim), dtype=np.float32)
        self.next_observations = np.zeros((size, obs_dim), dtype=np.float32)
        self.actions = np.zeros((size, 1), dtype=np.int64)
        self.rewards = np.zeros((size, 1), dtype=np.float32)
        self.dones = np.zeros((size, 1), dtype=np.float32)
        self.size, self.pos, self.full = size, 0, False
        self.device = device

    def add(self, obs, next_obs, action, reward, done):
        self.observations[self.pos] = obs
        self.next_observations[self.pos] = next_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.dones[self.pos] = done
        self.pos += 1
        if self.pos == self.size:
            self.full = True
            self.pos = 0

    def sample(self, batch_size):
        upper_bound = self.size if self.full else self.pos
        inds = np.random.randint(0, upper_bound, size=batch_size)
        stored = (self.observations, self.actions, self.next_observations, self.dones, self.rewards)
        data = tuple(array[inds] for array in stored)
        return Samples(*tuple(map(self.to_torch, data)))

    def to_torch(self, array):
        return jnp.array(array)


def array_or_zeros(x, dtype):
    """What `FloatTensor(x)` and its like are in torch: the values of x; where x is a whole number, so many zeros."""
    return jnp.zeros(x, dtype) if isinstance(x, int | np.integer) else jnp.asarray(x, dtype)


def gather(x, axis, index):
    """Takes elements along an axis, as torch does: on the other axes the index may be shorter than x."""
    kept = tuple(slice(None) if i == axis % x.ndim else slice(n) for i, n in enumerate(index.shape))
    return jnp.take_along_axis(x[kept], index, axis=axis)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class QNetwork(nn.Module):
    obs_dim: int
    n: int

    def setup(self):
        self.network = nn.Sequential([
            nn.Dense(32, **torch_init(fan_in=self.obs_dim)),
            nn.relu,
            nn.Dense(self.n, **torch_init(fan_in=32)),
        ])

    def __call__(self, x):
        return self.network(x)


random.seed(1)
np.random.seed(1)
key = jax.random.key(1)
q_network = QNetwork(4, 2)
key, subkey = jax.random.split(key)
q_network_params = q_network.init(
    subkey, jnp.expand_dims(jnp.asarray(np.zeros((4,)).astype(np.float32), jnp.float32), 0)
)["params"]
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(q_network_params)
target_network = QNetwork(4, 2)
key, subkey = jax.random.split(key)
target_network_params = target_network.init(
    subkey, jnp.expand_dims(jnp.asarray(np.zeros((4,)).astype(np.float32), jnp.float32), 0)
)["params"]
target_network_params = jax.tree.map(jnp.copy, q_network_params)
rb = ReplayBuffer(1000, 4)
obs = np.random.randn(4).astype(np.float32)


@jax.jit
def eval_step_q_network(params, *inputs):
    return q_network.apply({"params": params}, *inputs)


@jax.jit(donate_argnames=("q_network_params", "opt_state"))
def train_step(
    target_network_params,
    q_network_params,
    opt_state,
    next_observations,
    rewards,
    dones,
    observations,
    actions,
):
    def loss_fn(q_network_params):
        array_2 = target_network.apply({"params": target_network_params}, next_observations)
        target_max = array_2.max(axis=1)
        td_target = rewards.reshape(-1) + 0.99 * target_max * (1 - dones.reshape(-1))
        target_max, td_target = jax.lax.stop_gradient((target_max, td_target))
        old_val = gather(
            q_network.apply({"params": q_network_params}, observations), 1, actions
        ).squeeze()
        loss = jnp.square(td_target - old_val).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(q_network_params)
    updates, opt_state = optimizer.update(grads, opt_state, q_network_params)
    q_network_params = optax.apply_updates(q_network_params, updates)
    return q_network_params, opt_state, {"loss": loss}


for global_step in range(200):
    if random.random() < 0.3:
        action = np.random.randint(2)
    else:
        q_values = eval_step_q_network(
            q_network_params, jnp.expand_dims(array_or_zeros(obs, jnp.float32), 0)
        )
        action = np.asarray(q_values.argmax(axis=1))[0]
    next_obs = (0.9 * obs + 0.1 * action).astype(np.float32)
    rb.add(obs, next_obs, action, float(next_obs.sum()), float(global_step % 10 == 0))
    obs = next_obs
    if global_step > 20 and global_step % 4 == 0:
        data = rb.sample(16)
        q_network_params, opt_state, metrics = train_step(
            target_network_params,
            q_network_params,
            opt_state,
            data.next_observations,
            data.rewards,
            data.dones,
            data.observations,
            data.actions,
        )
        loss = metrics["loss"]
        print(loss.item())
        if global_step % 20 == 0:
            target_network_params = jax.tree.map(
                lambda tp, qp: 0.5 * qp + 0.5 * tp, target_network_params, q_network_params
            )
