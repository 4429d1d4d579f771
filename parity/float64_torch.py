"""Torch in float64: a script runs as it is, and what would be a narrower float becomes a float64.

The script may name float32 wherever it likes (`x.float()`, `dtype=torch.float32`, arrays of float32 from numpy): inside
`widened()` there is no narrower type. Random numbers are drawn as float32 and widened, so that a model starts from the
same weights as in float32. Autocast leaves float64 alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from parity.child import patch

_NARROW = {torch.float32, torch.float16, torch.bfloat16}
_NARROWING = {Tensor.float, Tensor.half, Tensor.bfloat16}
_FILLS = ("uniform_", "normal_", "exponential_", "log_normal_", "cauchy_")
_DRAWS = ("rand", "randn", "normal")
_LEGACY = ("FloatTensor", "HalfTensor", "BFloat16Tensor")


class _Widened(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _NARROWING:
            return args[0].double()
        args = tuple(_dtype(a) for a in args)
        kwargs = {name: _dtype(value) for name, value in kwargs.items()}
        result = func(*args, **kwargs)
        return result if any(result is a for a in args) else _wide(result)


def _drawn_narrow(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An in-place fill that draws float32 numbers, whatever it fills."""

    @functools.wraps(original)
    def fill(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.dtype != torch.float64:
            return original(self, *args, **kwargs)
        with torch.no_grad(), torch._C.DisableTorchFunction():
            return self.copy_(original(torch.empty(self.shape, dtype=torch.float32), *args, **kwargs))

    return fill


def _created_narrow(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(original)
    def draw(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs.get("dtype", torch.float64) not in (*_NARROW, torch.float64) or any(
            isinstance(a, Tensor) for a in args
        ):
            return original(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            result = original(*args, **{**kwargs, "dtype": torch.float32, "requires_grad": False}).double()
            return result.requires_grad_(kwargs.get("requires_grad", False))

    return draw


def _dtype(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _NARROW else value
    if isinstance(value, str) and value.removeprefix("torch.") in _LEGACY:
        return "torch.DoubleTensor"
    return value


def _wide(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.dtype in _NARROW and not isinstance(value, torch.nn.Parameter) else value
    if type(value) in (tuple, list):
        return type(value)(_wide(item) for item in value)
    return value


def install() -> None:
    """From here on this process computes in float64."""
    torch.set_default_dtype(torch.float64)
    for name in _LEGACY:
        patch(torch, name, torch.DoubleTensor)
    for name in _FILLS:
        patch(Tensor, name, _drawn_narrow(getattr(Tensor, name)))
    for name in _DRAWS:
        patch(torch, name, _created_narrow(getattr(torch, name)))
    patch(torch, "from_numpy", _from_numpy(torch.from_numpy))
    patch(torch, "load", _untouched(torch.load))
    _Widened().__enter__()


def _from_numpy(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """It looks at no mode. What is widened no longer shares its memory with the array."""

    @functools.wraps(original)
    def from_numpy(array: np.ndarray) -> Tensor:
        narrow = isinstance(array, np.ndarray) and array.dtype in (np.float32, np.float16)
        return original(array.astype(np.float64)) if narrow else original(array)

    return from_numpy


def _untouched(original: Callable[..., Any]) -> Callable[..., Any]:
    """Reading a file builds tensors upon storages of the type in the file."""

    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return original(*args, **kwargs)

    return load
