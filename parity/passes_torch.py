"""Which forward pass a step begins with. A script may call its model before that as well, as to draw samples, and each
pass in train mode changes what the model keeps: JAX's side knows the state before the pass that the loss comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

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


def _ancestors(node: Any) -> set[Any]:
    """What a value was computed by."""
    seen, waiting = set[Any](), [node]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.add(one)
            waiting += [earlier for earlier, _ in one.next_functions]
    return seen
