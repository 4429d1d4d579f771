"""Scripts that name CUDA, where there is none: what they would put on a GPU stays on the CPU.

Both sides are compared on the same device, and the one that every machine has is the CPU. A script says
`device = "cuda"`, or `model.cuda()`, wherever its author had a GPU; the numbers it would have are those of the CPU, but
for the order in which a GPU adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from parity.child import patch

_CPU = torch.device("cpu")
NOTE = "the script asks for CUDA, which is not there: torch ran on the CPU"

_SILENT = (  # what only waits for a GPU or tidies its memory
    "set_device",
    "synchronize",
    "empty_cache",
    "reset_peak_memory_stats",
    "ipc_collect",
)


def install(asked: Callable[[], None]) -> None:
    """From here on this process takes "cuda" for "cpu", unless there is a GPU. `asked` is called where it does."""
    if torch.cuda.is_available():
        return
    for name in _SILENT:
        patch(torch.cuda, name, lambda *_, **__: None)  # one for each: torch tells functions by what they are
    patch(torch, "load", _loaded(torch.load))
    _Redirected(asked).__enter__()


class _Redirected(TorchFunctionMode):
    """Every device that is given to torch, and is a GPU, as the CPU."""

    def __init__(self, asked: Callable[[], None]) -> None:
        super().__init__()
        self.asked = asked

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.cuda, Tensor.pin_memory):
            self.asked()
            return args[0]
        if _is_gpu(kwargs.get("device")):
            self.asked()
            kwargs = {**kwargs, "device": _CPU}
        if func is Tensor.to and len(args) > 1 and _is_gpu(args[1]):
            self.asked()
            args = (args[0], _CPU, *args[2:])
        return func(*args, **kwargs)


def _is_gpu(given: Any) -> bool:
    """Whether a device is a GPU: torch.device, "cuda:0", or its number."""
    if isinstance(given, torch.device):
        return given.type == "cuda"
    if isinstance(given, str):
        return given.partition(":")[0] == "cuda"
    return type(given) is int


def _loaded(load: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.load` of what was saved on a GPU, whether or not a place is named for it."""

    def loaded(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        here = map_location is None or _is_gpu(map_location)
        return load(file, "cpu" if here else map_location, *args, **kwargs)

    return loaded
