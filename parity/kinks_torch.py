"""Torch with its kinks taken the other way: a ReLU whose input is zero to within rounding has either slope, and of two
entries of a pooling window that are as good as equal either is the largest. Values stay what they are."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from parity.perturb import CONTRACTION
from parity.tolerance import NOISE_FACTOR

# Functions of one tensor that are smooth but for places where their slope jumps.
_PIECEWISE = {
    "relu", "relu6", "leaky_relu", "prelu", "hardtanh", "hardswish", "hardsigmoid", "threshold", "abs", "clamp",
    "clamp_min", "clamp_max", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
}  # fmt: skip


class Kinks(TorchFunctionMode):
    """Slopes are those of a point nearby: each entry is moved by as much as roundings may have moved it, up or down at
    random; where `sign` is -1, down where it went up with 1."""

    def __init__(self, sign: int) -> None:
        super().__init__()
        self.sign = sign
        self._random = torch.Generator().manual_seed(0)  # the script's own draws stay what they are

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        x = args[0] if args else None
        if getattr(func, "__name__", "").strip("_") not in _PIECEWISE or not _differentiated(x):
            return func(*args, **kwargs)
        moved = x + self._move(x)
        nearby = func(moved, *args[1:], **kwargs)
        if not isinstance(nearby, Tensor):  # with the indices of a pooling window
            return func(*args, **kwargs)
        with torch.no_grad():
            off = func(x.detach().clone(), *args[1:], **kwargs) - nearby
        return x.copy_(nearby + off) if nearby is moved else nearby + off

    def _move(self, x: Tensor) -> Tensor:
        up = torch.randint(0, 2, x.shape, generator=self._random, dtype=x.dtype)
        size = x.detach().square().mean().sqrt()
        return self.sign * NOISE_FACTOR * CONTRACTION * size * (2 * up - 1)


def _differentiated(x: Any) -> TypeGuard[Tensor]:
    return isinstance(x, Tensor) and x.is_floating_point() and x.requires_grad and torch.is_grad_enabled()


def install(sign: int) -> None:
    """From here on this process takes its kinks so: see `Kinks`."""
    Kinks(sign).__enter__()
