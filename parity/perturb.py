"""How far torch is from itself: a run in which nothing changed but roundings.

Each initial weight moves to a neighbouring float. At each update each gradient gets the error of a float32 contraction:
a network of piecewise linear parts turns such differences into jumps when a unit crosses zero, at a step that no
earlier difference foretells. Adam's updates are scaled by what optax's float32 bias correction makes of them: a
difference between the frameworks that no rewrite in optax can avoid.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

# Relative Frobenius error of a long float32 contraction on a CPU: 2.6e-7 in torch, 4.1e-7 in JAX; together 4.8e-7.
CONTRACTION = 4 * 2.0**-23


def adam_in_float32(betas: tuple[float, float], step: int) -> float:
    """By what factor the update of Adam's step (from 1) changes when its bias corrections are computed in float32.

    Rounding beta to float32 moves 1 - beta**t, a small difference of two numbers close to 1: 6e-6 of the update with
    betas (0.9, 0.999), at every step of the first thousand.
    """
    exact = [1 - beta**step for beta in betas]
    rounded = [float(np.float32(1) - np.float32(beta) ** np.float32(step)) for beta in betas]
    if min(*exact, *rounded) <= 0:
        return 1.0
    return exact[0] / rounded[0] * (rounded[1] / exact[1]) ** 0.5


class Perturbation:
    """The moves of one run, by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.RandomState(seed)
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def initial(self, model: nn.Module) -> None:
        """Every float weight of a model moves up or down."""
        self._move(model.parameters())

    def install(self) -> None:
        register_optimizer_step_pre_hook(self._before_update)
        register_optimizer_step_post_hook(self._after_update)

    def _before_update(self, optimizer: Any, *_: Any) -> None:
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        self._scale(optimizer, 1)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._round(parameter.grad for parameter in parameters if parameter.grad is not None)

    def _after_update(self, optimizer: Any, *_: Any) -> None:
        self._scale(optimizer, -1)

    def _scale(self, optimizer: Any, power: int) -> None:
        for group in optimizer.param_groups:
            if "lr" in group and "betas" in group:
                group["lr"] = group["lr"] * adam_in_float32(group["betas"], self._steps[optimizer]) ** power

    def _move(self, tensors: Iterable[Tensor]) -> None:
        """Each number to one of its two neighbours."""
        with torch.no_grad():
            for tensor in filter(_dense_float, tensors):
                up = torch.from_numpy(np.asarray(self._random.randint(0, 2, tuple(tensor.shape)) > 0))
                infinity = torch.tensor(torch.inf, dtype=tensor.dtype)
                tensor.copy_(torch.nextafter(tensor, torch.where(up, infinity, -infinity)))

    def _round(self, tensors: Iterable[Tensor]) -> None:
        """An error relative to the size of the tensor; what is zero stays, as in any order of summation."""
        with torch.no_grad():
            for tensor in filter(_dense_float, tensors):
                error = torch.from_numpy(self._random.standard_normal(tuple(tensor.shape))).to(tensor.dtype)
                scale = CONTRACTION * tensor.square().mean().sqrt()
                tensor.add_(error * scale * (tensor != 0))


def _dense_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and not tensor.is_sparse
