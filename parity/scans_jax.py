"""Calls of modules in a lifted scan, told apart as the calls of a loop are.

Flax traces the body of a scan once for what stays the same, which computes nothing, and once for the turns. A module
that the body calls is traced once and runs at every turn: which call a value is of is counted when it arrives.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
from flax.core import axes_scan

from parity import child


class _Turns:
    """One scan. start: how often each module was called before it; calls: how often one turn calls it."""

    def __init__(self, count: int, start: dict[str, int]) -> None:
        self.count, self.start = count, start
        self.calls: dict[str, int] = {}
        self._arrived: Counter[tuple[str, int, int]] = Counter()

    def occurrence(self, path: str, occurrence: int, output: int) -> int | None:
        """Which call of a module the value that arrives now is of; None once the scan has run before."""
        turn = self._arrived[path, occurrence, output]
        self._arrived[path, occurrence, output] += 1
        return occurrence + turn * self.calls[path] if turn < self.count else None


class Scans:
    """The scans that are being traced, and how often each module has been called by then."""

    def __init__(self) -> None:
        self.occurrence: dict[str, int] = {}
        self._around: list[_Turns | None] = []  # None: what is traced computes nothing

    def install(self) -> None:
        child.patch(axes_scan, "scan", self._lifted(axes_scan.scan))
        child.patch(jax.lax, "scan", self._scan(jax.lax.scan))

    @property
    def idle(self) -> bool:
        """Whether what is traced now computes nothing."""
        return bool(self._around) and self._around[-1] is None

    def next_call(self, path: str, record: Callable[[str, Any], None]) -> Callable[[int], Callable[[Any], None]]:
        """Counts a call of a module; what records its outputs by number, under the names that they have in a loop."""
        occurrence = self.occurrence.get(path, 0)
        self.occurrence[path] = occurrence + 1
        turns = self._around[-1] if self._around else None

        def recorder(output: int) -> Callable[[Any], None]:
            def arrived(value: Any) -> None:
                which = occurrence if turns is None else turns.occurrence(path, occurrence, output)
                if which is not None:
                    record(f"{path}|{which}|{output}", value)

            return arrived

        return recorder

    def _lifted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def scan(*args: Any, **kwargs: Any) -> Any:
            run = original(*args, **kwargs)

            def idly(*given: Any) -> Any:
                self._around.append(None)
                try:
                    return run(*given)
                finally:
                    self._around.pop()

            return idly

        return scan

    def _scan(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def scan(f: Any, init: Any, xs: Any = None, length: int | None = None, **options: Any) -> Any:
            if not self.idle:
                return original(f, init, xs, length, **options)
            count = len(jax.tree.leaves(xs)[0]) if length is None else length
            turns = _Turns(count, dict(self.occurrence))

            def body(carry: Any, x: Any) -> Any:
                self._restart(turns.start)
                self._around.append(turns)
                try:
                    return f(carry, x)
                finally:
                    self._around.pop()

            result = original(body, init, xs, length, **options)
            turns.calls = {path: calls - turns.start.get(path, 0) for path, calls in self.occurrence.items()}
            self._restart({path: turns.start.get(path, 0) + count * calls for path, calls in turns.calls.items()})
            return result

        return scan

    def _restart(self, occurrence: dict[str, int]) -> None:
        self.occurrence.clear()
        self.occurrence.update(occurrence)


def of_first_turn(value: Any) -> Any:
    """What a value under `jax.vmap` is of the first element: those of all would arrive in any order."""
    axis = getattr(value, "batch_dim", None)
    return value if axis is None else jax.lax.index_in_dim(value.val, 0, axis, keepdims=False)
