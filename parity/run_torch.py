"""The torch side, in a process of its own: `python -m parity.run_torch CONFIG.json` writes a recording.

The script runs unmodified, as `__main__`. Watched are: each loss whose `.backward()` is called (a step, but
for those that the manifest names under `by_inputs`), the gradients that it adds, every model before its first use, and
the output of every module in its first differentiated pass. Where a script never calls it, `torch.autograd.grad` of a
loss by weights is a step, too.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from parity import child, devices_torch, draws_torch, kinks_torch, probe_torch, products_torch, retyped_torch
from parity.passes_torch import Outputs, Passes
from parity.perturb import Perturbation
from parity.record import (
    DETAILED_STEPS,
    GRADIENT_STEPS,
    STATE_STEPS,
    Recording,
    RunConfig,
    Stop,
    Tensors,
    wanted,
)


def _array(tensor: Tensor) -> np.ndarray:
    """A copy, in a type that numpy knows (bfloat16 becomes float32: exact)."""
    tensor = tensor.detach().cpu()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy().copy()


def _square(gradient: Tensor) -> float:
    gradient = gradient.detach()
    return float((gradient.to_dense() if gradient.is_sparse else gradient).double().square().sum())


def _leaves(value: Any) -> Iterator[Tensor]:
    """The float tensors in a module's output, in order."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        # as JAX does, with a result of transformers' too, which is a dict there
        sorts = type(value) is not OrderedDict and all(isinstance(key, str) for key in value)
        for key in sorted(value) if sorts else value:
            yield from _leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name))


# Wrappers that hold one module and add nothing: the model is what they hold.
_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


class Models:
    """Which modules are models: those that no other module holds. Named by class, "Net" or, the second, "Net#1"."""

    def __init__(self) -> None:
        self._seen: list[weakref.ref[nn.Module]] = []
        self._names: dict[int, str] = {}
        self._kept: list[nn.Module] = []
        self._owner: dict[int, nn.Module] = {}
        self._copied: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        for hook in ("__init__", "__setstate__"):
            self._watch(hook)

    def _watch(self, hook: str) -> None:
        original = getattr(nn.Module, hook)

        def patched(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            self._seen.append(weakref.ref(module))
            if hook == "__setstate__":
                self._copied.add(module)

        setattr(nn.Module, hook, patched)

    def all(self) -> list[nn.Module]:
        """Every living model that has weights, in the order of construction."""
        alive = {id(module): module for ref in self._seen if (module := ref()) is not None}
        held = {id(child) for m in alive.values() if not isinstance(m, _WRAPPERS) for child in m.children()}
        return [
            m
            for m in alive.values()
            if id(m) not in held and not isinstance(m, _WRAPPERS) and any(True for _ in m.parameters())
        ]

    def is_copy(self, model: nn.Module) -> bool:
        """Whether a model was made by copying another one."""
        return model in self._copied

    def of(self, module: nn.Module) -> nn.Module | None:
        """The model that a module belongs to."""
        if id(module) not in self._owner:
            for model in self.all():
                self._owner.update({id(part): model for part in model.modules()})
                self._kept.append(model)
        return self._owner.get(id(module))

    def name(self, model: nn.Module) -> str:
        if id(model) not in self._names:
            for other in self.all():
                if id(other) not in self._names:
                    self._kept.append(other)  # keeps the id from being used again
                    same = sum(n.split("#")[0] == type(other).__name__ for n in self._names.values())
                    self._names[id(other)] = type(other).__name__ + (f"#{same}" if same else "")
        return self._names[id(model)]


class Watcher:
    """The hooks, and the recording they fill."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.recording = Recording(versions={"torch": torch.__version__})
        self.models = Models()
        self.perturbation = None if config.perturb is None else Perturbation(config.perturb)
        self._stack: list[nn.Module] = []
        self._names: dict[int, dict[int, str]] = {}
        self._occurrence: dict[str, int] = {}
        self._tensor_names: dict[int, list[str]] = {}
        self._watched: set[int] = set()
        self._start_weights: dict[str, dict[str, Tensor]] = {}
        self._in_backward = False
        self.passes, self.outputs = Passes(), Outputs(self.recording.outputs)
        self.probe = probe_torch.Probe(config.probe, self.recording)

    @property
    def step(self) -> int:
        """The step that is being computed, from 1."""
        return len(self.recording.losses) + 1

    def install(self) -> None:
        nn.modules.module.register_module_forward_pre_hook(self._before_forward)
        nn.modules.module.register_module_forward_hook(self._after_forward, always_call=True)
        self._patch_backward()
        self._patch_grad()
        self._patch_optimizers()
        child.patch(torch, "compile", _not_compiled)
        child.patch(torch.jit, "script", _not_compiled)

    def note_device(self) -> None:
        """The script has put something on a GPU, which is not there."""
        if devices_torch.NOTE not in self.recording.notes:
            self.recording.notes.append(devices_torch.NOTE)

    # --- forward

    def _before_forward(self, module: nn.Module, args: Any) -> None:
        if isinstance(module, _WRAPPERS):
            return
        if not self._stack:
            model = self.models.of(module)
            if model is not None:
                self._start(model)
        self._stack.append(module)
        if self.config.probe and torch.is_grad_enabled():
            path = self._path(module) or ""
            self.probe.before(f"{path}|{self._occurrence.get(path, 0)}", list(_leaves(args)))

    def _start(self, model: nn.Module) -> None:
        if id(model) not in self._watched:
            self._watched.add(id(model))
            self._first_use(model)
        if not torch.is_grad_enabled():
            return
        self._occurrence.clear()
        name = self.models.name(model)
        self._note_distance(name, model)
        if self.step <= DETAILED_STEPS:
            self.outputs.begin(name)
        if wanted(self.recording.states, name, self.step, STATE_STEPS):
            self.passes.begin(name, model, lambda: _state(name, model))

    def _note_distance(self, name: str, model: nn.Module) -> None:
        """How far the weights have come since the model's first step, whole and one by one."""
        now = {key: parameter.detach().double() for key, parameter in model.named_parameters()}
        first = self._start_weights.setdefault(name, {key: value.clone() for key, value in now.items()})
        squares = {key: float((value - first[key]).square().sum()) for key, value in now.items() if key in first}
        for key, square in squares.items():
            self.recording.note_curve(f"distance|{name}|{key}", self.step, square**0.5)
        self.recording.note_curve(f"distance|{name}", self.step, sum(squares.values()) ** 0.5)

    def _first_use(self, model: nn.Module) -> None:
        name = self.models.name(model)
        self._note(name, model)
        self._names[id(model)] = {id(part): path for path, part in model.named_modules()}
        for key, parameter in model.named_parameters(remove_duplicate=False):  # a tied weight has several names
            self._tensor_names.setdefault(id(parameter), []).append(f"{name}|{key}")
        if self.perturbation is not None:
            self.perturbation.initial(model)

    def _after_forward(self, module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(module, _WRAPPERS) or not self._stack:
            return
        self._stack.pop()
        if self.step <= DETAILED_STEPS and torch.is_grad_enabled():
            self._note_outputs(module, output)
        if not self._stack:
            self.passes.end(_leaves(output))
            self.outputs.end()

    def _note_outputs(self, module: nn.Module, output: Any) -> None:
        path = self._path(module)
        if path is None:
            return
        occurrence = self._occurrence.get(path, 0)
        self.probe.after(f"{path}|{occurrence}")
        self._occurrence[path] = occurrence + 1
        for i, leaf in enumerate(_leaves(output)):
            self.outputs.note(f"{path}|{occurrence}|{i}", lambda leaf=leaf: _array(leaf))

    def _path(self, module: nn.Module) -> str | None:
        """ "Net|block.0", where the module belongs to a model that is in use."""
        model = self.models.of(module)
        if model is None or id(model) not in self._names or id(module) not in self._names[id(model)]:
            return None
        return f"{self.models.name(model)}|{self._names[id(model)][id(module)]}"

    # --- backward

    def _patch_backward(self) -> None:
        original = torch.Tensor.backward

        def backward(tensor: Tensor, *args: Any, **kwargs: Any) -> None:
            if self._in_backward:
                return original(tensor, *args, **kwargs)
            trains = not self._is_by_inputs(sys._getframe(1))
            if trains and len(self.recording.losses) >= self.config.steps:
                raise Stop
            self._in_backward = True
            try:
                if trains:
                    self._differentiate(original, tensor, args, kwargs)
                else:
                    original(tensor, *args, **kwargs)
            finally:
                self._in_backward = False

        child.patch(torch.Tensor, "backward", backward)

    def _is_by_inputs(self, caller: FrameType) -> bool:
        """Whether a backward pass is taken for gradients by inputs alone."""
        return f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}" in self.config.by_inputs

    def _patch_grad(self) -> None:
        original = torch.autograd.grad

        def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
            if not isinstance(outputs, Tensor) or not self._is_step(sys._getframe(1), inputs, args, kwargs):
                return original(outputs, inputs, *args, **kwargs)
            if len(self.recording.losses) >= self.config.steps:
                raise Stop
            held, taken = [weight.grad for weight in inputs], []

            def fill(loss: Tensor) -> None:
                taken.extend(original(loss, inputs, **kwargs))
                for weight, gradient in zip(inputs, taken, strict=True):
                    weight.grad = gradient

            for weight in inputs:
                weight.grad = None
            self._differentiate(fill, outputs, (), {})
            for weight, gradient in zip(inputs, held, strict=True):
                weight.grad = gradient
            return tuple(taken)

        child.patch(torch.autograd, "grad", grad)

    def _is_step(self, caller: FrameType, inputs: list[Tensor], args: Any, kwargs: dict[str, Any]) -> bool:
        """Whether gradients are taken to train: all by weights of models, in a script that never goes backward."""
        if args or kwargs.get("create_graph") or kwargs.get("grad_outputs") is not None or self._in_backward:
            return False
        weights = {id(p) for model in self.models.all() for p in model.parameters()}
        files = {caller.f_code.co_filename, str(self.config.script)}
        return {id(one) for one in inputs} <= weights and not any(map(_goes_backward, files))

    def _differentiate(self, original: Any, loss: Tensor, args: Any, kwargs: Any) -> None:
        given = args[0] if args else kwargs.get("gradient")
        weighed = loss.detach().double() if given is None else loss.detach().double() * given.detach()
        value, step = float(weighed.sum()), self.step
        if step <= DETAILED_STEPS:
            self.outputs.differentiated(loss)
        states = self.passes.before(loss)
        if states:
            self.recording.states[step] = states
        owners = {id(p): self.models.name(model) for model in self.models.all() for p in model.parameters()}
        parameters = [p for model in self.models.all() for p in model.parameters()]
        before = {id(p): p.grad for p in parameters}
        for parameter in parameters:  # for a moment they hold this step's gradient alone
            parameter.grad = None
        original(loss, *args, **kwargs)
        detailed = self._detailed(step)
        gradients: Tensors = {}
        squares: dict[str, float] = {}
        for parameter in dict.fromkeys(parameters):
            earlier = before[id(parameter)]
            if parameter.grad is None:
                parameter.grad = earlier
                continue
            owner = owners[id(parameter)]
            squares[owner] = squares.get(owner, 0.0) + _square(parameter.grad)
            if owner in detailed:
                gradients.update(dict.fromkeys(self._tensor_names.get(id(parameter), ()), _array(parameter.grad)))
            if earlier is not None:
                parameter.grad = earlier.add_(parameter.grad)
        if gradients:
            self.recording.gradients[step] = gradients
            still = [p for p in parameters if not p.requires_grad]
            frozen = {name for p in still for name in self._tensor_names.get(id(p), ())}
            self.recording.frozen[str(step)] = sorted(frozen)
        for owner, square in squares.items():
            self.recording.note_curve(f"gradient|{owner}", step, square**0.5)
        self.recording.losses.append(value)

    def _detailed(self, step: int) -> set[str]:
        """The models whose gradients of this step are kept."""
        if step > DETAILED_STEPS:
            return set()
        names = {self.models.name(model) for model in self.models.all()}
        return {name for name in names if wanted(self.recording.gradients, name, step, GRADIENT_STEPS)}

    def _patch_optimizers(self) -> None:
        def after_step(*_: Any) -> None:
            if len(self.recording.losses) >= self.config.steps and not self._in_backward:
                raise Stop

        register_optimizer_step_post_hook(after_step)
        if self.perturbation is not None:
            self.perturbation.install()

    def finish(self) -> None:
        """Models that were built and never called: a rewritten script initialises them all the same."""
        self.outputs.finish()
        for model in self.models.all():
            if id(model) not in self._watched:
                self._note(self.models.name(model), model)

    def _note(self, name: str, model: nn.Module) -> None:
        self.recording.models.append(name)
        self.recording.modules[name] = type(model).__module__
        self.recording.copies += [name] if self.models.is_copy(model) else []
        self.recording.initial.update(_state(name, model))


@functools.cache
def _goes_backward(path: str) -> bool:
    """Whether a file calls `backward()`; so it may where it cannot be read."""
    try:
        return ".backward(" in Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return True


def _not_compiled(model: Any = None, **_: Any) -> Any:
    """In the place of torch.compile and torch.jit.script, called or with arguments a decorator: hooks do not fire in
    compiled code."""
    return model if model is not None else (lambda function: function)


def _state(name: str, model: nn.Module) -> Tensors:
    state = model.state_dict()
    return {f"{name}|{key}": _array(value) for key, value in state.items() if isinstance(value, Tensor)}


def main(config_path: str) -> int:
    config = RunConfig.read(config_path)
    torch.set_num_threads(config.threads)
    if config.dtype != "float32":
        retyped_torch.install(config.dtype)
    if config.products:
        products_torch.install(config.products)
    if config.kinks:
        kinks_torch.install(config.kinks)
    draws_torch.install()
    watcher = Watcher(config)
    watcher.install()
    devices_torch.install(watcher.note_device)
    torch.manual_seed(config.seed)
    child.run_script(config, watcher.recording)
    watcher.finish()
    watcher.recording.save(Path(config.out))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if watcher.recording.error is None else 1)


if __name__ == "__main__":
    main(sys.argv[1])
