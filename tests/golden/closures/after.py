"""Steps that are given a closure: evaluated once by most optimizers, as often as it needs by L-BFGS; weights in float64."""
from collections.abc import Callable
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
import argparse, torch


jax.config.update("jax_enable_x64", True)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
data = torch.load("waves.pt")
x, y = jnp.asarray(data[:, :-1]), jnp.asarray(data[:, 1:])


@dataclass(frozen=True)
class LBFGS:
    """torch's L-BFGS. `step` runs on the host: it evaluates the closure as often as it needs. Without a `line_search`
    each move has the size that the learning rate tells."""

    learning_rate: float = 1.0
    max_iter: int = 20
    max_eval: int | None = None
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9
    history_size: int = 100
    line_search: Callable | None = None

    def init(self, params):
        return {"moves": 0, "pairs": (), "scale": 1.0}

    def step(self, closure, params, state, grads):
        """Up to `max_iter` moves: the parameters, the state, the last gradients, and the first loss. The closure gives
        the gradients and the loss: `grads, loss = closure(params, grads)`."""
        max_eval = self.max_iter * 5 // 4 if self.max_eval is None else self.max_eval
        weights, unravel = ravel_pytree(params)
        grads, first_loss = closure(params, grads)
        gradient, loss = ravel_pytree(grads)[0], float(first_loss)
        if jnp.abs(gradient).max() <= self.tolerance_grad:
            return params, state, grads, first_loss
        evaluations = 1

        def evaluated(size):
            nonlocal grads
            grads, loss = closure(unravel(weights + size * state["direction"]), grads)
            return float(loss), ravel_pytree(grads)[0]

        for number in range(1, self.max_iter + 1):
            state = self._aimed(state, gradient)
            if gradient @ state["direction"] > -self.tolerance_change:
                break
            previous_loss = loss
            if self.line_search is not None:
                size, loss, gradient, asked = self.line_search(
                    evaluated,
                    state["size"],
                    loss,
                    gradient,
                    state["direction"],
                    max_eval - evaluations,
                    self.tolerance_change,
                )
                state, evaluations = {**state, "size": size}, evaluations + asked
            elif number < self.max_iter:
                loss, gradient = evaluated(state["size"])
                evaluations += 1
            move = state["size"] * state["direction"]
            weights = weights + move
            params = unravel(weights)
            if number == self.max_iter or evaluations >= max_eval or jnp.abs(gradient).max() <= self.tolerance_grad:
                break
            if jnp.abs(move).max() <= self.tolerance_change or abs(loss - previous_loss) < self.tolerance_change:
                break
        return params, state, grads, first_loss

    def _aimed(self, state, gradient):
        """The state with the direction and the size of the next move; `pairs` are past moves with the changes of the
        gradient along them."""
        pairs, scale, size = state["pairs"], state["scale"], self.learning_rate
        if state["moves"] == 0:
            size = jnp.minimum(1.0, 1.0 / jnp.abs(gradient).sum()) * size
        else:
            change, move = gradient - state["gradient"], state["size"] * state["direction"]
            if change @ move > 1e-10:
                pairs = (*pairs, (move, change))[-self.history_size :]
                scale = (change @ move) / (change @ change)
        direction, weights = -gradient, []
        for move, change in reversed(pairs):
            weights.append((move @ direction) / (change @ move))
            direction = direction - weights[-1] * change
        direction = direction * scale
        for (move, change), weight in zip(pairs, reversed(weights), strict=True):
            direction = direction + (weight - (change @ direction) / (change @ move)) * move
        moved = {"moves": state["moves"] + 1, "gradient": gradient, "direction": direction, "size": size}
        return {"pairs": pairs, "scale": scale, **moved}


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Dense(7, **torch_init(fan_in=7))
key = jax.random.key(0)
key, subkey = jax.random.split(key)
model_params = model.init(subkey, x)["params"]
model_params = jax.tree.map(lambda x: x.astype(jnp.float64), model_params)
criterion = lambda outputs, targets: jnp.square(outputs - targets).mean()
optimizer = LBFGS(0.8, history_size=10)
optimizer_state = optimizer.init(model_params)
model_grads = jax.tree.map(jnp.zeros_like, model_params)
other = nn.Dense(7, **torch_init(fan_in=7))
key, subkey = jax.random.split(key)
other_params = other.init(subkey, x)["params"]
other_params = jax.tree.map(lambda x: x.astype(jnp.float64), other_params)
descent = optax.sgd(0.1, momentum=0.9)
descent_state = descent.init(other_params)
other_grads = jax.tree.map(jnp.zeros_like, other_params)


@jax.jit(donate_argnames="other_grads")
def forward_backward(other_params, other_grads, x, y):
    def loss_fn(other_params):
        loss = criterion(other.apply({"params": other_params}, x), y)
        return loss

    loss, new_other_grads = jax.value_and_grad(loss_fn)(other_params)
    return jax.tree.map(jnp.add, other_grads, new_other_grads), {"loss": loss}


def closure(other_params, other_grads):
    other_grads = jax.tree.map(jnp.zeros_like, other_params)
    other_grads, metrics = forward_backward(other_params, other_grads, x, y)
    loss = metrics["loss"]
    return other_grads, loss


@jax.jit(donate_argnames="model_grads")
def forward_backward_2(model_params, model_grads, x, y):
    def loss_fn(model_params):
        loss = criterion(model.apply({"params": model_params}, x), y)
        return loss

    loss, new_model_grads = jax.value_and_grad(loss_fn)(model_params)
    return jax.tree.map(jnp.add, model_grads, new_model_grads), {"loss": loss}


@jax.jit(donate_argnames=("other_params", "descent_state"))
def optimizer_update(other_params, descent_state, other_grads):
    updates, descent_state = descent.update(other_grads, descent_state, other_params)
    return optax.apply_updates(other_params, updates), descent_state


for step in range(args.steps):

    def evaluated(model_params, model_grads):
        model_grads = jax.tree.map(jnp.zeros_like, model_params)
        model_grads, metrics = forward_backward_2(model_params, model_grads, x, y)
        loss = metrics["loss"]
        print("evaluated", loss.item())
        return model_grads, loss

    model_params, optimizer_state, model_grads, _ = optimizer.step(
        evaluated, model_params, optimizer_state, model_grads
    )
    other_grads, loss = closure(other_params, other_grads)
    other_params, descent_state = optimizer_update(other_params, descent_state, other_grads)
    print(step, loss.item())
