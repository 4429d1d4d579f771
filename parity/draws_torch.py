"""Replaces the random draws of torch by the stand-in. Used by both sides: a rewritten script may keep a torch loader.

Initial weights stay torch's own random numbers, or every layer of one shape would start out the same. So a draw made
while a module is being constructed is left alone, and so is an in-place fill of a parameter, but for the first one that
a place in the script fills: a rewritten script may draw that anew, after it was given torch's weights.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parity import dropout_torch, standin
from parity.child import patch

_parameters: weakref.WeakSet[Tensor] = weakref.WeakSet()
_filled: dict[tuple[str, int, int], int] = {}  # a place in a script, its caller -> the weight's memory filled first
_TRUNCATED = "_no_grad_trunc_normal_"  # what `nn.init.trunc_normal_` calls


def install() -> None:
    """Patch torch in this process, for good."""
    _track_construction()
    for name, draw in _FUNCTIONS.items():
        original = getattr(torch, name)
        patched = _unless_constructing(original, draw)
        for holder in [torch, *_torch_data_modules()]:
            if getattr(holder, name, None) is original:
                setattr(holder, name, patched)
    for name, fill in _FILLS.items():
        setattr(Tensor, name, _unless_weights(getattr(Tensor, name), fill))
    dropout_torch.install()
    _single_process_loaders()


# --- when a draw is a weight -----------------------------------------------------------------------------------------


def _track_construction() -> None:
    original_new = torch.nn.Parameter.__new__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        parameter = original_new(cls, *args, **kwargs)
        _parameters.add(parameter)
        return parameter

    patch(torch.nn.Parameter, "__new__", staticmethod(new))


def _frames(start: int = 2) -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(start)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _in_constructor() -> bool:
    """Whether some caller is the __init__ or reset_parameters of a module."""
    for frame in _frames():
        if frame.f_code.co_name in ("__init__", "reset_parameters", "_reset_parameters"):
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module):
                return True
    return False


def _is_weight(tensor: Tensor) -> bool:
    """A parameter, or a view of one (`layer.weight.data`)."""
    if isinstance(tensor, torch.nn.Parameter):
        return True
    storage = tensor.untyped_storage().data_ptr()
    return storage != 0 and any(p.untyped_storage().data_ptr() == storage for p in list(_parameters))


def _filled_by_name(weight: Tensor) -> bool:
    """Whether the place in the script that fills a weight has filled no other one: `model.head.weight.data.normal_()`,
    and not a function that goes through all layers."""
    where = next((f for f in _frames() if not f.f_globals.get("__name__", "").startswith(("torch.", "parity."))), None)
    if where is None:
        return False
    memory, caller = weight.untyped_storage().data_ptr(), where.f_back.f_lasti if where.f_back is not None else -1
    return _filled.setdefault((where.f_code.co_filename, where.f_lasti, caller), memory) == memory


def _keeps_its_numbers() -> bool:
    """Called by `nn.init.trunc_normal_`, which draws until all values are within its bounds, and the stand-in never
    gives others; or by the loader, whose sampler seeds a generator by filling an empty tensor."""
    callers = ((frame, frame.f_globals.get("__name__", "")) for frame in _frames())
    not_ours = ((frame, name) for frame, name in callers if not name.startswith("parity."))  # modes call back
    for depth, (frame, name) in enumerate(not_ours):
        if frame.f_code.co_name == _TRUNCATED or name.startswith("torch.utils.data"):
            return True
        if depth >= 3:
            return False
    return False


def _unless_constructing(original: Callable[..., Any], draw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if _in_constructor() else draw(*args, **kwargs)

    return patched


def _unless_weights(original: Callable[..., Any], fill: Callable[..., np.ndarray]) -> Callable[..., Any]:
    @functools.wraps(original)
    def patched(self: Tensor, *args: Any, generator: Any = None, **kwargs: Any) -> Tensor:
        weight = _is_weight(self) and not _filled_by_name(self)
        if _keeps_its_numbers() or weight or _in_constructor():
            return original(self, *args, generator=generator, **kwargs)
        with torch.no_grad():
            return self.copy_(torch.from_numpy(np.ascontiguousarray(fill(self, *args, **kwargs))))

    return patched


# --- torch.rand and its like -----------------------------------------------------------------------------------------


def _tensor(values: np.ndarray, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(dtype=dtype, device=device).requires_grad_(requires_grad)


def _size(size: Sequence[Any]) -> tuple[int, ...]:
    if len(size) == 1 and not isinstance(size[0], int) and np.ndim(size[0]) == 1:
        size = size[0]
    return tuple(int(n) for n in size)


def _creation(values: Callable[[tuple[int, ...]], np.ndarray]) -> Callable[..., Tensor]:
    def draw(
        *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, out: Any = None, **ignored: Any
    ) -> Tensor:
        if "size" in ignored:
            size = (ignored.pop("size"),)
        result = _tensor(values(_size(size)), dtype or torch.get_default_dtype(), device, requires_grad)
        return result if out is None else out.resize_(result.shape).copy_(result)

    return draw


def _creation_like(values: Callable[[tuple[int, ...]], np.ndarray]) -> Callable[..., Tensor]:
    def draw(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any) -> Tensor:
        return _tensor(values(tuple(input.shape)), dtype or input.dtype, device or input.device, requires_grad)

    return draw


def _randint(*args: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> Tensor:
    args = tuple(a for a in args if not isinstance(a, torch.Generator))
    names = ("low", "high", "size") if len(args) + sum(k in kwargs for k in ("low", "high", "size")) == 3 else ()
    bound = dict(zip(names or ("high", "size"), args, strict=False)) | {
        k: kwargs[k] for k in ("low", "high", "size") if k in kwargs
    }
    values = standin.randint(_size((bound["size"],)), int(bound.get("low", 0)), int(bound["high"]))
    return _tensor(values, dtype or torch.int64, device, requires_grad)


def _randint_like(input: Tensor, low: int, high: int | None = None, *, dtype: Any = None, **_: Any) -> Tensor:
    low, high = (0, low) if high is None else (low, high)
    return _tensor(standin.randint(tuple(input.shape), int(low), int(high)), dtype or input.dtype, input.device, False)


def _randperm(n: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any) -> Tensor:
    return _tensor(standin.permutation(int(n)), dtype or torch.int64, device, requires_grad)


def _normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    if size is None:
        mean, std = torch.as_tensor(mean), torch.as_tensor(std)
        size = torch.broadcast_shapes(mean.shape, std.shape)
        dtype = dtype or torch.result_type(mean, std)
    noise = _tensor(standin.normal(_size((size,))), dtype or torch.get_default_dtype(), device, False)
    made = mean + std * noise
    return made.detach().requires_grad_() if requires_grad else made


def _bernoulli(input: Tensor, p: Any = None, **_: Any) -> Tensor:
    draws = _tensor(standin.uniform01(tuple(input.shape)), torch.float64, input.device, False)
    return (draws < (input if p is None else p)).to(input.dtype)


def _multinomial(input: Tensor, num_samples: int, replacement: bool = False, **_: Any) -> Tensor:
    weights = input.detach().double().cpu().numpy()
    if num_samples > 1 and not replacement:
        values = standin.without_replacement(weights, num_samples)
    else:
        draws = standin.uniform01((*weights.shape[:-1], num_samples))
        values = standin.categorical(weights[..., None, :], draws)
    return _tensor(values, torch.int64, input.device, False)


def _of_concentrations(original: str, values: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Tensor]:
    """torch's own numbers where a gradient is taken of the concentrations: it goes by them."""
    torchs = getattr(torch, original)

    def draw(concentration: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if concentration.requires_grad:
            return torchs(concentration, *args, **kwargs)
        return _tensor(values(concentration.cpu().double().numpy()), concentration.dtype, concentration.device, False)

    return draw


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "rand": _creation(standin.uniform01),
    "randn": _creation(standin.normal),
    "rand_like": _creation_like(standin.uniform01),
    "randn_like": _creation_like(standin.normal),
    "randint": _randint,
    "randint_like": _randint_like,
    "randperm": _randperm,
    "normal": _normal,
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
    "_standard_gamma": _of_concentrations("_standard_gamma", standin.gamma),
    "_sample_dirichlet": _of_concentrations("_sample_dirichlet", standin.dirichlet),
}


# --- in-place fills --------------------------------------------------------------------------------------------------


def _fill_random(self: Tensor, low: int = 0, high: int | None = None) -> np.ndarray:
    if high is None:
        low, high = 0, (int(low) or 2**24)
    return standin.randint(tuple(self.shape), int(low), int(high))


def _fill_bernoulli(self: Tensor, p: Any = 0.5) -> np.ndarray:
    p = p.detach().cpu().double().numpy() if isinstance(p, Tensor) else p
    return standin.bernoulli(tuple(self.shape), p)


_FILLS: dict[str, Callable[..., np.ndarray]] = {
    "normal_": lambda self, mean=0.0, std=1.0: standin.normal(tuple(self.shape), mean, std),
    "uniform_": lambda self, a=0.0, b=1.0: standin.uniform(tuple(self.shape), a, b),
    "exponential_": lambda self, lambd=1.0: standin.exponential(tuple(self.shape)) / lambd,
    "random_": _fill_random,
    "bernoulli_": _fill_bernoulli,
}


# --- loaders ---------------------------------------------------------------------------------------------------------


def _torch_data_modules() -> list[Any]:
    """Modules of torch.utils.data that imported a draw by name (`from torch import randperm`)."""
    return [module for name, module in list(sys.modules.items()) if module and name.startswith("torch.utils.data")]


def _single_process_loaders() -> None:
    """No worker processes: they would draw from copies of the random state, and outlive the run."""
    loader = torch.utils.data.DataLoader
    original = loader.__init__

    @functools.wraps(original)
    def init(self: Any, dataset: Any, batch_size: Any = 1, shuffle: Any = None, *args: Any, **kwargs: Any) -> None:
        names = ("sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout")
        kwargs.update(zip(names, args, strict=False))
        kwargs.update(num_workers=0, pin_memory=False)
        for name in ("persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context"):
            kwargs.pop(name, None)
        original(self, dataset, batch_size, shuffle, **kwargs)

    loader.__init__ = init
