"""Proximal policy optimisation: a storage that is filled in place, and a loss of what was acted before."""

from dataclasses import dataclass

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct


@dataclass
class Args:
    num_envs: int = 3
    num_steps: int = 8
    num_minibatches: int = 2
    learning_rate: float = 2.5e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    max_grad_norm: float = 0.5


class Walks:
    """Walks side by side, which begin anew where they have gone too far."""

    def __init__(self, number, seed):
        self.random = np.random.default_rng(seed)
        self.places = self.random.normal(size=(number, 4))

    def step(self, actions):
        self.places = 1.1 * self.places + 0.2 * (actions[:, None] - 0.5)
        far = np.abs(self.places).sum(1) > 6
        self.places[far] = self.random.normal(size=(far.sum(), 4))
        return self.places, 1 - np.abs(self.places).sum(1), far


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


def array_or_zeros(x, dtype):
    """What `FloatTensor(x)` and its like are in torch: the values of x; where x is a whole number, so many zeros."""
    return jnp.zeros(x, dtype) if isinstance(x, int | np.integer) else jnp.asarray(x, dtype)


def clamp(x, min=None, max=None):
    """`jnp.clip`, with torch's gradient: at a bound it is 1, where that of `jnp.clip` is 0.5."""
    if min is not None:
        x = jnp.where(x >= min, x, jnp.maximum(jax.lax.stop_gradient(x), min))
    return x if max is None else jnp.where(x <= max, x, jnp.minimum(jax.lax.stop_gradient(x), max))


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


@jax.jit(donate_argnames="x")
def set_part(x, index, value):
    """torch's `x[index] = value`, in the memory of x, which is gone then; `x.at[index]` alone makes a copy of all."""
    return x.at[index].set(value)


class Agent(nn.Module):
    inputs: int
    actions: int

    def setup(self):
        self.critic = nn.Sequential([
            nn.Dense(16, kernel_init=nn.initializers.orthogonal(np.sqrt(2))),
            nn.tanh,
            nn.Dense(1, kernel_init=nn.initializers.orthogonal(1.0)),
        ])
        self.actor = nn.Sequential(
            [
                nn.Dense(16, kernel_init=nn.initializers.orthogonal(np.sqrt(2))),
                nn.tanh,
                nn.Dense(
                    self.actions, kernel_init=nn.initializers.orthogonal(0.01), bias_init=nn.initializers.constant(0.1)
                ),
            ]
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical.from_logits(logits)
        if action is None:
            action = probs.sample(self.make_rng("sample"))
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


@jax.jit
def get_action_and_value(params, key, *inputs):
    return agent.apply({"params": params}, *inputs, method="get_action_and_value", rngs={"sample": key})


@jax.jit
def get_value(params, *inputs):
    return agent.apply({"params": params}, *inputs, method="get_value")


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, b_obs, mb_inds, b_actions, b_logprobs, mb_advantages, b_returns, key):
    def loss_fn(params):
        _, newlogprob, entropy, newvalue = agent.apply(
            {"params": params},
            b_obs[mb_inds],
            b_actions.astype(jnp.int32)[mb_inds],
            method="get_action_and_value",
            rngs={"sample": key},
        )
        logratio = newlogprob - b_logprobs[mb_inds]
        ratio = jnp.exp(logratio)
        pg_loss1 = -mb_advantages * ratio
        pg_loss2 = -mb_advantages * clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
        pg_loss = jnp.maximum(pg_loss1, pg_loss2).mean()
        v_loss = 0.5 * ((newvalue.reshape(-1) - b_returns[mb_inds]) ** 2).mean()
        loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
        return loss, ratio

    (loss, ratio), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    grads, _ = clip_grad_norm(grads, args.max_grad_norm)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "ratio": ratio}


key = jax.random.key(0)
if __name__ == "__main__":
    args = Args()
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    np.random.seed(1)
    key = jax.random.key(1)
    envs = Walks(args.num_envs, seed=1)
    agent = Agent(4, 2)
    key, subkey = jax.random.split(key)
    params = agent.init(
        subkey,
        jnp.zeros((args.num_steps, args.num_envs, 4)).reshape(-1, 4)[np.arange(batch_size)[:minibatch_size]],
        jnp.zeros((args.num_steps, args.num_envs))
        .reshape(-1)
        .astype(jnp.int32)[np.arange(batch_size)[:minibatch_size]],
        method="get_action_and_value",
    )["params"]
    optimizer = optax.adam(args.learning_rate, eps=1e-5)
    opt_state = optimizer.init(params)

    # Storage setup
    obs = jnp.zeros((args.num_steps, args.num_envs, 4))
    actions = jnp.zeros((args.num_steps, args.num_envs))
    logprobs = jnp.zeros((args.num_steps, args.num_envs))
    rewards = jnp.zeros((args.num_steps, args.num_envs))
    dones = jnp.zeros((args.num_steps, args.num_envs))
    values = jnp.zeros((args.num_steps, args.num_envs))
    next_obs = array_or_zeros(envs.places, jnp.float32)
    next_done = jnp.zeros(args.num_envs)

    for iteration in range(3):
        for step in range(0, args.num_steps):
            obs = set_part(obs, step, next_obs)
            dones = set_part(dones, step, next_done)
            key, subkey = jax.random.split(key)
            action, logprob, _, value = get_action_and_value(params, subkey, next_obs)
            values = set_part(values, step, value.reshape(-1))
            actions = actions.at[step].set(action)
            logprobs = set_part(logprobs, step, logprob)
            next_obs, reward, next_done = envs.step(np.asarray(action))
            rewards = set_part(rewards, step, jnp.array(reward).reshape(-1))
            next_obs, next_done = array_or_zeros(next_obs, jnp.float32), array_or_zeros(next_done, jnp.float32)

        # bootstrap value if not done
        next_value = get_value(params, next_obs).reshape(1, -1)
        advantages = jnp.zeros_like(rewards)
        lastgaelam = 0
        for t in reversed(range(args.num_steps)):
            if t == args.num_steps - 1:
                nextnonterminal = 1.0 - next_done
                nextvalues = next_value
            else:
                nextnonterminal = 1.0 - dones[t + 1]
                nextvalues = values[t + 1]
            delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]
            lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
            advantages = set_part(advantages, (None, t), lastgaelam)
        returns = advantages + values

        # flatten the batch
        b_obs = obs.reshape(-1, 4)
        b_logprobs = logprobs.reshape(-1)
        b_actions = actions.reshape(-1)
        b_advantages = advantages.reshape(-1)
        b_returns = returns.reshape(-1)

        b_inds = np.arange(batch_size)
        clipfracs = []
        for epoch in range(2):
            np.random.shuffle(b_inds)
            for start in range(0, batch_size, minibatch_size):
                mb_inds = b_inds[start : start + minibatch_size]
                mb_advantages = b_advantages[mb_inds]
                mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std(ddof=1) + 1e-8)
                key, subkey = jax.random.split(key)
                params, opt_state, metrics = train_step(
                    params, opt_state, b_obs, mb_inds, b_actions, b_logprobs, mb_advantages, b_returns, subkey
                )
                loss = metrics["loss"]
                ratio = metrics["ratio"]
                clipfracs += [(jnp.abs(ratio - 1.0) > args.clip_coef).astype(jnp.float32).mean().item()]
        print(f"{iteration}: {loss.item():.4f}, clipped {np.mean(clipfracs):.2f}")
