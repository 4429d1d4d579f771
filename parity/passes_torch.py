"""Which forward pass a step begins with. A script may call its model before that as well, as to draw samples or to
choose an action, and each pass in train mode changes what the model keeps: JAX's side knows the state before the pass
that the loss comes from, and what the modules returned in it."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from parity.record import Tensors

_MOST = 8  # passes of one step whose states are kept: samples are drawn by fewer


@dataclass
class _Pass:
    """A forward pass: the state before it, and what computed its outputs."""

    state: Tensors
    sources: list[Any] = field(default_factory=list)


class Passes:
    """The forward passes of models since the last backward pass."""

    def __init__(self) -> None:
        self._of: dict[str, list[_Pass]] = {}
        self._running: _Pass | None = None

    def begin(self, name: str, model: nn.Module, state: Callable[[], Tensors]) -> None:
        """Before a pass. One without buffers is the same before each of them."""
        known = self._of.setdefault(name, [])
        if not known or (len(known) < _MOST and next(model.buffers(), None) is not None):
            self._running = _Pass(state())
            known.append(self._running)

    def end(self, outputs: Iterable[Tensor]) -> None:
        """After the outermost pass."""
        if self._running is not None:
            self._running.sources = [output.grad_fn for output in outputs if output.grad_fn is not None]
        self._running = None

    def before(self, loss: Tensor) -> Tensors:
        """The state of each model before its first pass that the loss comes from; forgets all passes."""
        several = any(len(known) > 1 for known in self._of.values())
        reached = _ancestors(loss.grad_fn) if several else set()
        found: Tensors = {}
        for known in self._of.values():
            found |= next((one for one in known if reached & set(one.sources)), known[0]).state
        self._of = {}
        return found


@dataclass(eq=False)
class _Returned:
    """A pass: the autograd operations in it have numbers from `first` to before `last`. `outputs` are what its modules
    returned, None where they were dropped."""

    first: int
    last: int = 0
    outputs: Tensors | None = field(default_factory=dict)


class Outputs:
    """What the modules of each model returned in its first pass that a loss comes from; in its first pass, where no
    loss comes from any. They are put into `found`."""

    def __init__(self, found: Tensors) -> None:
        self._found = found
        self._of: dict[str, list[_Returned]] = {}
        self._running: _Returned | None = None
        self._told: set[str] = set()

    def begin(self, name: str) -> None:
        """Before a pass."""
        known = self._of.setdefault(name, [])
        self._running = _Returned(_number())
        known.append(self._running)
        if len(known) > _MOST:
            known[-_MOST].outputs = None  # the first and the latest are kept

    def note(self, name: str, value: Callable[[], Any]) -> None:
        """An output of a module in the pass."""
        if self._running is not None and self._running.outputs is not None and name not in self._running.outputs:
            self._running.outputs[name] = value()

    def end(self) -> None:
        """After the outermost pass."""
        if self._running is not None:
            self._running.last = _number()
        self._running = None

    def differentiated(self, loss: Tensor) -> None:
        """A loss is: the passes that it comes from are told."""
        numbers = sorted(node._sequence_nr() for node in _ancestors(loss.grad_fn)) if self._of else []
        for name, known in self._of.items():
            reached = [one for one in known if _any_between(numbers, one.first, one.last)]
            self._of[name] = [one for one in known if one not in reached]
            for one in reached:
                self._told.add(name)
                if one.outputs is None:  # a later one is no answer
                    break
                self._tell(one.outputs)

    def finish(self) -> None:
        """After the script."""
        for name, known in self._of.items():
            if name not in self._told and known and known[0].outputs is not None:
                self._tell(known[0].outputs)

    def _tell(self, outputs: Tensors) -> None:
        for key, value in outputs.items():
            self._found.setdefault(key, value)


def _number() -> int:
    """The number of the autograd operation that comes next."""
    return torch.autograd._get_sequence_nr()  # pyright: ignore[reportPrivateImportUsage]


def _any_between(numbers: list[int], first: int, last: int) -> bool:
    position = bisect.bisect_left(numbers, first)
    return position < len(numbers) and numbers[position] < last


def _ancestors(node: Any) -> set[Any]:
    """What a value was computed by."""
    seen, waiting = set[Any](), [node]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.add(one)
            waiting += [earlier for earlier, _ in one.next_functions]
    return seen
