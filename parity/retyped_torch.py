"""Torch in another float: a script runs as it is, and what would be a float32 becomes a float64, or a bfloat16.

The script may name float32 wherever it likes (`x.float()`, `dtype=torch.float32`, arrays of float32 from numpy): in
float64 there is no narrower type, in bfloat16 neither float32 nor float16. Random numbers are drawn as float32 and then
turned, so that a model starts from the same weights as in float32. Autocast leaves float64 alone.
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

_REPLACED = {
    torch.float64: {torch.float32, torch.float16, torch.bfloat16},
    torch.bfloat16: {torch.float32, torch.float16},
}
_NAMED = {Tensor.float: torch.float32, Tensor.half: torch.float16, Tensor.bfloat16: torch.bfloat16}
_FILLS = ("uniform_", "normal_", "exponential_", "log_normal_", "cauchy_")
_DRAWS = ("rand", "randn", "normal")
_LEGACY = {"FloatTensor": torch.float32, "HalfTensor": torch.float16, "BFloat16Tensor": torch.bfloat16}
_TYPE = {torch.float64: "DoubleTensor", torch.bfloat16: "BFloat16Tensor"}


def install(name: str) -> None:
    """From here on this process computes in `name`: float64 or bfloat16."""
    target: torch.dtype = getattr(torch, name)
    turned = _Turned(target)
    torch.set_default_dtype(target)
    for legacy, dtype in _LEGACY.items():
        if dtype in turned.replaced:
            patch(torch, legacy, getattr(torch, _TYPE[target]))
    for fill in _FILLS:
        patch(Tensor, fill, _filled_narrow(getattr(Tensor, fill), target))
    for draw in _DRAWS:
        patch(torch, draw, turned.drawn_narrow(getattr(torch, draw)))
    patch(torch, "from_numpy", turned.from_numpy(torch.from_numpy))
    patch(torch, "load", _untouched(torch.load))
    if target == torch.bfloat16:
        for name in ("numpy", "__array__"):
            patch(Tensor, name, _read_wide(getattr(Tensor, name)))
    turned.__enter__()


class _Turned(TorchFunctionMode):
    """Every result of a type that `target` replaces, and every mention of such a type, in `target`."""

    def __init__(self, target: torch.dtype) -> None:
        super().__init__()
        self.target, self.replaced = target, _REPLACED[target]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _NAMED.get(func) in self.replaced:
            return args[0].to(self.target)
        args = tuple(self.mention(a) for a in args)
        kwargs = {name: self.mention(value) for name, value in kwargs.items()}
        result = func(*args, **kwargs)
        return result if any(result is a for a in args) else self.result(result)

    def mention(self, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return self.target if value in self.replaced else value
        if isinstance(value, str) and _LEGACY.get(value.removeprefix("torch.")) in self.replaced:
            return f"torch.{_TYPE[self.target]}"
        return value

    def result(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            kept = value.dtype not in self.replaced or isinstance(value, torch.nn.Parameter)
            return value if kept else value.to(self.target)
        if type(value) in (tuple, list):
            return type(value)(self.result(item) for item in value)
        return value

    def drawn_narrow(self, original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(original)
        def draw(*args: Any, **kwargs: Any) -> Tensor:
            dtype = kwargs.get("dtype", self.target)
            if dtype not in (*self.replaced, self.target) or any(isinstance(a, Tensor) for a in args):
                return original(*args, **kwargs)
            with torch._C.DisableTorchFunction():
                result = original(*args, **{**kwargs, "dtype": torch.float32, "requires_grad": False}).to(self.target)
                return result.requires_grad_(kwargs.get("requires_grad", False))

        return draw

    def from_numpy(self, original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """It looks at no mode. What is turned no longer shares its memory with the array."""

        @functools.wraps(original)
        def from_numpy(array: np.ndarray) -> Tensor:
            return self.result(original(array))

        return from_numpy


def _filled_narrow(original: Callable[..., Tensor], target: torch.dtype) -> Callable[..., Tensor]:
    """An in-place fill that draws float32 numbers, whatever it fills."""

    @functools.wraps(original)
    def fill(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.dtype != target:
            return original(self, *args, **kwargs)
        with torch.no_grad(), torch._C.DisableTorchFunction():
            return self.copy_(original(torch.empty(self.shape, dtype=torch.float32), *args, **kwargs))

    return fill


def _untouched(original: Callable[..., Any]) -> Callable[..., Any]:
    """Reading a file builds tensors upon storages of the type in the file."""

    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return original(*args, **kwargs)

    return load


def _read_wide(original: Callable[..., Any]) -> Callable[..., Any]:
    """numpy has no bfloat16: the script, which expects float32, gets the same numbers in it."""

    @functools.wraps(original)
    def read(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.dtype != torch.bfloat16:
            return original(self, *args, **kwargs)
        with torch._C.DisableTorchFunction():
            return original(self.to(torch.float32), *args, **kwargs)

    return read
