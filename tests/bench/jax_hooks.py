"""Puts the clock around each step of an unmodified JAX script that keeps to the names that `migrate rewrite` gives.

A step is one call of a jitted `train_step...`, or what lies between the first jitted `forward_backward...` and the end
of the jitted `optimizer_update...`. The window closes when the results are computed, not when the call returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from tests.bench.clock import StepClock

OPENS = ("train_step", "forward_backward")
CLOSES = ("train_step", "optimizer_update")


def install(clock: StepClock) -> None:
    """Patches `jax.jit` for the rest of the process, as a call, as a decorator and under `functools.partial`."""
    real_jit = jax.jit

    def jit(fun: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        if fun is None:
            return functools.partial(jit, **options)
        compiled = real_jit(fun, **options)
        name = getattr(fun, "__name__", "")
        return _Timed(compiled, name, clock) if name.startswith(OPENS + CLOSES) else compiled

    jax.jit = jit


class _Timed:
    """A jitted function with the clock around its calls; everything else (`lower`, `trace` ...) is passed through."""

    def __init__(self, compiled: Any, name: str, clock: StepClock) -> None:
        self._compiled = compiled
        self._opens = name.startswith(OPENS)
        self._closes = name.startswith(CLOSES)
        self._clock = clock

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._opens:
            self._clock.begin()
        result = self._compiled(*args, **kwargs)
        if self._closes:
            jax.block_until_ready(result)
            self._clock.end()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)
