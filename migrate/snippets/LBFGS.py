from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree


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
