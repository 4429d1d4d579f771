"""Puts the clock around each step of an unmodified PyTorch script, from `zero_grad()` to the end of `step()`."""

from __future__ import annotations

from typing import Any

import torch

from tests.bench.clock import StepClock


def install(clock: StepClock, compiled: bool) -> None:
    """Patches `torch.optim.Optimizer` for the rest of the process.

    `compiled=True` gives torch its best: the script's model and its optimizer step both go through `torch.compile`, the
    learning rate is handed over as a tensor (a new float would recompile each time a schedule changes it), and each
    batch shape keeps a graph of its own, as under `jax.jit`.
    """
    torch.set_num_threads(1)
    if compiled:
        torch._dynamo.config.automatic_dynamic_shapes = False
        _compile_first_module_called()
    zero_grad = torch.optim.Optimizer.zero_grad
    timed: set[int] = set()

    def begin(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        if id(self) not in timed:
            timed.add(id(self))
            step = _compiled_step(self) if compiled else self.step
            self.step = _ending(step, clock)  # pyright: ignore[reportAttributeAccessIssue]
        clock.begin()
        zero_grad(self, *args, **kwargs)

    torch.optim.Optimizer.zero_grad = begin


def _ending(step: Any, clock: StepClock) -> Any:
    def timed_step(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        clock.end()
        return result

    return timed_step


def _compile_first_module_called() -> None:
    """The first module that a script calls is its model. The call under way runs eagerly, the later ones compiled."""

    def compile_it(module: torch.nn.Module, _args: Any) -> None:
        handle.remove()
        module.compile()

    handle = torch.nn.modules.module.register_module_forward_pre_hook(compile_it)


def _compiled_step(optimizer: torch.optim.Optimizer) -> Any:
    eager = type(optimizer).step
    step = torch.compile(lambda: eager(optimizer))
    rates = [torch.tensor(float(group["lr"])) for group in optimizer.param_groups]

    def run() -> None:
        floats = [group["lr"] for group in optimizer.param_groups]
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            rate.fill_(group["lr"])
            group["lr"] = rate
        step()
        for group, value in zip(optimizer.param_groups, floats, strict=True):
            group["lr"] = value

    return run
