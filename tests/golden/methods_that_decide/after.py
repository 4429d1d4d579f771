"""Q-learning whose network chooses the actions itself, now and then at random: methods for the host, not for jit."""

import random
from collections import deque

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Walk:
    """A point that drifts, and is pushed to one side or the other."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.turn, self.state = 0, self.rng.uniform(-0.5, 0.5, 4).astype(np.float32)
        return self.state

    def any_action(self):
        return int(self.rng.randint(2))

    def step(self, action):
        self.turn += 1
        pushed = 0.9 * self.state + 0.1 * (2 * action - 1) + self.rng.uniform(-0.1, 0.1, 4)
        self.state = pushed.astype(np.float32)
        return self.state, float(1 - abs(self.state[0])), self.turn >= 12


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


@jax.jit(static_argnames="model")
def best(model, params, *inputs):
    return model.apply({"params": params}, *inputs, method="best")


def array_or_zeros(x, dtype):
    """What `FloatTensor(x)` and its like are in torch: the values of x; where x is a whole number, so many zeros."""
    return jnp.zeros(x, dtype) if isinstance(x, int | np.integer) else jnp.asarray(x, dtype)


def largest(x, axis, keepdims=False):
    """The largest elements along an axis: of equal ones the first, which has the gradient, as in torch.

    The gradient of `x.max` goes to what equals the result: to nothing where XLA computes x twice and rounds otherwise.
    """
    values = jnp.take_along_axis(x, x.argmax(axis, keepdims=True), axis)
    return values if keepdims else values.squeeze(axis)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Qnet(nn.Module):
    states: int
    actions: int
    training: bool = False

    def setup(self):
        self.fc1 = nn.Dense(32, **torch_init(fan_in=self.states))
        self.dropout = nn.Dropout(0.2, deterministic=not self.training)
        self.fc2 = nn.Dense(self.actions, **torch_init(fan_in=32))

    def __call__(self, x):
        return self.fc2(self.dropout(nn.relu(self.fc1(x))))

    def best(self, x):
        return self(x).argmax(axis=1)

    def act(self, params, state, epsilon):
        if random.random() > epsilon:
            state = jnp.expand_dims(array_or_zeros(state, jnp.float32), 0)
            q_value = eval_step(self, params, state)
            action = q_value.argmax(axis=1).item()
        else:
            action = random.randrange(self.actions)
        return action

    def sample_action(self, params, obs, epsilon):
        out = eval_step(self, params, obs)
        coin = np.random.rand()
        if coin < epsilon:
            return env.any_action()
        else:
            return out.argmax().item()

    def turns_to(self, params, state, action, most=5):
        """How often a state is halved until its best action is another one."""
        x, turns = jnp.asarray(state)[None], 0
        while turns < most:
            if best(self, params, x) == action:
                break
            x, turns = x / 2, turns + 1
        return turns, nn.relu(self.bind({"params": params}).fc1(x)).mean().item()

    def explore(self, params, state):
        # as often as not
        return self.act(params, state, 0.5) if best(self, params, jnp.asarray(state)[None]).item() else 0


@jax.jit(static_argnames=("q_target", "q", "optimizer"), donate_argnames=("q_params", "opt_state"))
def train_step(q_target, q, optimizer, q_target_params, q_params, opt_state, r, s_prime, s, a, key):
    keys = jax.random.split(key, 2)

    def loss_fn(q_params):
        target = r + 0.98 * jax.lax.stop_gradient(
            largest(
                q_target.clone(training=True).apply({"params": q_target_params}, s_prime, rngs={"dropout": keys[0]}),
                axis=1,
            )
        )
        loss = optax.huber_loss(
            q.clone(training=True).apply({"params": q_params}, s, rngs={"dropout": keys[1]})[:, a], target
        ).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(q_params)
    updates, opt_state = optimizer.update(grads, opt_state, q_params)
    q_params = optax.apply_updates(q_params, updates)
    return q_params, opt_state, {"loss": loss}


def train(q, q_params, q_target, q_target_params, memory, optimizer, opt_state, key):
    for s, a, r, s_prime in random.sample(memory, 4):
        s, s_prime = jnp.asarray(s)[None], jnp.asarray(s_prime)[None]
        key, subkey = jax.random.split(key)
        q_params, opt_state, metrics = train_step(
            q_target, q, optimizer, q_target_params, q_params, opt_state, r, s_prime, s, a, subkey
        )
        loss = metrics["loss"]
    return q_params, opt_state, loss.item()


random.seed(0)
np.random.seed(0)
key = jax.random.key(0)
env = Walk(0)
q = Qnet(4, 2)
q_target = Qnet(4, 2)
key, subkey = jax.random.split(key)
q_params = q.init(subkey, jnp.zeros((1, 4)))["params"]
key, subkey = jax.random.split(key)
q_target_params = q_target.init(subkey, jnp.zeros((1, 4)))["params"]
q_target_params = jax.tree.map(jnp.copy, q_params)
optimizer = optax.adam(5e-3)
opt_state = optimizer.init(q_params)
memory = deque(maxlen=50)
for episode in range(4):
    s, done, score = env.reset(), False, 0.0
    while not done:
        a = q.sample_action(q_params, jnp.asarray(s).astype(jnp.float32), 0.2)
        if a:
            a = q.act(q_params, s, 0.1)
        elif episode == 0:
            a = q.explore(q_params, s)
        s_prime, r, done = env.step(a)
        memory.append((s, a, r, s_prime))
        s, score = s_prime, score + r
    key, subkey = jax.random.split(key)
    q_params, opt_state, loss = train(q, q_params, q_target, q_target_params, memory, optimizer, opt_state, subkey)
    turns, hidden = q.turns_to(q_params, s, 1)
    print(f"{episode}: {score:.3f} {loss:.5f} {turns} {hidden:.5f}")
