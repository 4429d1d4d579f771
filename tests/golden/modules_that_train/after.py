"""An actor and critic that is a module, and all that trains it as well: the optimizer, the data, the update."""

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

gamma = 0.98


class Walk:
    """A point that drifts, and is pushed to one side or the other."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.turn, self.state = 0, self.rng.uniform(-0.5, 0.5, 4).astype(np.float32)
        return self.state

    def step(self, action):
        self.turn += 1
        pushed = 0.9 * self.state + 0.1 * (2 * action - 1) + self.rng.uniform(-0.1, 0.1, 4)
        self.state = pushed.astype(np.float32)
        return self.state, float(1 - abs(self.state[0])), self.turn >= 12


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


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


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


class ActorCriticNet(nn.Module):
    states: int
    actions: int
    scale: float = 10.0

    def setup(self):
        self.fc1 = nn.Dense(16, **torch_init(fan_in=self.states))
        self.fc_pi = nn.Dense(self.actions, **torch_init(fan_in=16))
        self.fc_v = nn.Dense(1, **torch_init(fan_in=16))

    def pi(self, x, softmax_dim=0):
        x = nn.relu(self.fc1(x))
        return nn.softmax(self.fc_pi(x), axis=softmax_dim)

    def v(self, x):
        return self.scale * self.fc_v(nn.relu(self.fc1(x)))


@jax.jit(static_argnames=("net", "optimizer", "advantages"), donate_argnames=("params", "opt_state"))
def train_step(net, optimizer, advantages, params, opt_state, s, s_prime, r, done, a):
    def loss_fn(params):
        target, advantage = advantages(params, s, s_prime, r, done)
        pi_a = gather(net.apply({"params": params}, s, softmax_dim=1, method="pi"), 1, a)
        loss = (
            -jnp.log(pi_a) * advantage
            + optax.huber_loss(net.apply({"params": params}, s, method="v"), target).mean()
        ).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads, _ = clip_grad_norm(grads, 1.0)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


class ActorCritic:
    """Learns from what it was told since it learnt last."""

    def __init__(self, states, actions, key, lr=2e-3, scale=10.0):
        self.data = []
        self.updates = 0
        self.net = ActorCriticNet(states, actions, scale)
        self.params = self.net.init(
            key, jnp.zeros((1, states)), method=lambda model, x: (model.v(x), model.pi(x))
        )["params"]
        self.scale = scale
        self.optimizer = optax.adam(lr)
        self.opt_state = self.optimizer.init(self.params)

    def put_data(self, transition):
        self.data.append(transition)

    def make_batch(self):
        s_lst, a_lst, r_lst, s_prime_lst, done_lst = [], [], [], [], []
        for s, a, r, s_prime, done in self.data:
            s_lst.append(s)
            a_lst.append([a])
            r_lst.append([r / self.scale])
            s_prime_lst.append(s_prime)
            done_lst.append([0.0 if done else 1.0])
        self.data = []
        states = jnp.array(np.array(s_lst)), jnp.array(np.array(s_prime_lst))
        return *states, jnp.array(a_lst), jnp.array(r_lst), jnp.array(done_lst)

    def advantages(self, params, s, s_prime, r, done):
        target = r + gamma * self.net.apply({"params": params}, s_prime, method="v") * done
        return jax.lax.stop_gradient((target, target - self.net.apply({"params": params}, s, method="v")))

    def train_net(self):
        s, s_prime, a, r, done = self.make_batch()
        self.params, self.opt_state, metrics = train_step(
            self.net, self.optimizer, self.advantages, self.params, self.opt_state, s, s_prime, r, done, a
        )
        loss = metrics["loss"]
        self.updates += 1
        return loss.item()


@jax.jit(static_argnames="model")
def pi(model, params, *inputs):
    return model.apply({"params": params}, *inputs, method="pi")


def main():
    key = jax.random.key(0)
    env = Walk(0)
    key, subkey = jax.random.split(key)
    model = ActorCritic(4, 2, subkey)
    for episode in range(4):
        s, done, score = env.reset(), False, 0.0
        while not done:
            for _ in range(5):
                key, subkey = jax.random.split(key)
                action = (
                    Categorical.from_probs(pi(model.net, model.params, jnp.asarray(s))).sample(subkey).item()
                )
                s_prime, r, done = env.step(action)
                model.put_data((s, action, r, s_prime, done))
                s, score = s_prime, score + r
                if done:
                    break
            loss = model.train_net()
        print(f"{episode}: {score:.3f}, {model.updates} updates, {loss:.5f}")


if __name__ == "__main__":
    main()
