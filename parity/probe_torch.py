"""One call of one torch module, looked into: its inputs, and the result of every operation in it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from parity.record import Recording

_PASSED = ("/torch/", "<frozen", "runpy.py", "contextlib")
_HERE = str(Path(__file__).parent)


class _Operations(TorchDispatchMode):
    """Every operation below autograd, with its results and the user's line."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.count += 1
        line = _user_line()
        for position, tensor in enumerate(_floats(result) if line is not None else ()):
            name = f"{function.overloadpacket.__name__}|{line}|{self.count}.{position}"
            self.recording.operations[name] = tensor.detach().cpu().numpy().copy()
        return result


class Probe:
    """Records the first call that is asked for: "Net|block.0|1"."""

    def __init__(self, wanted: str | None, recording: Recording) -> None:
        self.wanted, self.recording = wanted, recording
        self._mode: _Operations | None = None

    def before(self, call: str, inputs: list[Tensor]) -> None:
        if call != self.wanted or self.recording.inputs or self.recording.operations:
            return
        for i, tensor in enumerate(inputs):
            self.recording.inputs[str(i)] = tensor.detach().cpu().numpy().copy()
        self._mode = _Operations(self.recording)
        self._mode.__enter__()

    def after(self, call: str) -> None:
        if self._mode is not None and call == self.wanted:
            self._mode.__exit__(None, None, None)
            self._mode = None


def _floats(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.dtype in (torch.float32, torch.float64, torch.bfloat16):
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _floats(item)


def _user_line() -> str | None:
    """The innermost line outside torch, "train.py:12"; None where that is in a stand-in of this toolkit for a draw."""
    for frame in reversed(traceback.extract_stack()):
        passed = frame.filename == __file__ or frame.name == "__torch_function__"
        if not passed and not any(part in frame.filename for part in _PASSED):
            if frame.filename.startswith(_HERE):
                return None
            return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
    return ""
