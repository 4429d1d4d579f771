"""The JAX side, in a process of its own: `python -m parity.run_jax CONFIG.json` writes a recording.

The rewritten script runs unmodified, as `__main__`. Its models get the torch run's initial weights as `Module.init`
returns. Recorded from inside compiled code, by `jax.debug.callback`: each value that `jax.value_and_grad` or
`jax.grad` differentiates (a step), its gradients, the variables each model is applied to, and module outputs.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax  # noqa: F401  imported before the patches, so that its own jitted functions stay as they are

from parity import child, draws_jax, probe_jax, products_jax
from parity.codes import ParityError
from parity.initial_jax import Weights, by_path
from parity.names import instances
from parity.oracle import Undecided, Unknown, evaluated
from parity.packed import LENGTHS, is_packed
from parity.passes_jax import Outputs, array_of
from parity.record import GRADIENT_STEPS, STATE_STEPS, Recording, RunConfig, Stop, wanted
from parity.retyped_jax import Retyped
from parity.scans_jax import Scans, of_first_turn


def _models_of(tensors: dict[str, Any]) -> set[str]:
    return {name.partition("|")[0] for name in tensors}


class Watcher:
    """The patches, and the recording they fill."""

    def __init__(self, config: RunConfig, weights: Weights, retyped: Retyped) -> None:
        self.config, self.weights, self.retyped = config, weights, retyped
        self.recording = Recording(versions={"jax": jax.__version__, "flax": flax.__version__})
        self._depth = 0  # of calls into compiled or differentiated functions: inner ones belong to the outer
        self._differentiating = False
        self._without_value = False  # in `jax.grad`, by which a rewritten script never trains
        self._model: str | None = None
        self.scans = Scans()
        self.probe = probe_jax.Probe(config, self.recording)
        self._start_weights: dict[str, dict[str, np.ndarray]] = {}
        self._init_depth = 0
        self._fixed, self._outside = False, None
        self._passes = 0  # of the loss that is traced
        self.outputs = Outputs(self.recording.outputs)
        # while differentiating: ids of the differentiated leaves -> their index, and the names found for them
        self._inner: tuple[dict[int, int], dict[int, str]] = ({}, {})

    def install(self) -> None:
        self._patch_init()
        self._patch_apply()
        self.scans.install()
        self._interception = nn.intercept_methods(self._intercept)  # kept: collected, it would end
        self._interception.__enter__()
        jax.value_and_grad = self._value_and_grad(jax.value_and_grad)
        jax.grad = self._grad(jax.value_and_grad)
        jax.jit = self._jit(jax.jit)

    # --- steps

    @property
    def step(self) -> int:
        return len(self.recording.losses) + 1

    def _stop_if_done(self) -> None:
        if self._depth == 0 and len(self.recording.losses) >= self.config.steps:
            jax.effects_barrier()
            raise Stop

    def _outermost(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function whose callbacks must have arrived when it returns."""
        self._stop_if_done()
        self._depth += 1
        try:
            result = function(*args, **kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0:
            jax.effects_barrier()
            self.outputs.calls += 1
        return result

    def _jit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def jit(fun: Any = None, **options: Any) -> Any:
            if fun is None:
                return functools.partial(jit, **options)
            compiled = original(fun, **options)
            enter = self.retyped.arguments(compiled)

            @functools.wraps(fun)
            def call(*args: Any, **kwargs: Any) -> Any:
                return self._outermost(enter, *args, **kwargs)

            for name in ("lower", "trace", "eval_shape", "clear_cache"):
                if hasattr(compiled, name):
                    setattr(call, name, getattr(compiled, name))
            return call

        return functools.wraps(original)(jit)

    def _value_and_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def value_and_grad(fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
            def watched(*args: Any, **kwargs: Any) -> Any:
                chosen = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)
                leaves, leaf_names = jax.tree.leaves(chosen), {}
                indices = {id(leaf): i for i, leaf in enumerate(leaves)}
                self._differentiating, self._inner, self._passes = True, (indices, leaf_names), 0
                traces = [leaf._trace for leaf in leaves if hasattr(leaf, "_trace")]
                self._outside = getattr(traces[0], "parent_trace", None) if traces else None
                try:
                    result = fun(*args, **kwargs)
                finally:
                    self._differentiating = False
                found.clear()
                found.update(leaf_names)
                return result

            found: dict[int, str] = {}
            differentiate = original(watched, argnums=argnums, has_aux=has_aux, **options)
            plain = original(fun, argnums=argnums, has_aux=has_aux, **options)

            @functools.wraps(fun)
            def call(*args: Any, **kwargs: Any) -> Any:
                inside = self._differentiating  # a gradient inside a loss is part of that loss
                by_inputs = self._without_value and self.config.by_inputs  # it trains nothing
                if inside or by_inputs:
                    return plain(*args, **kwargs)
                if self.config.oracle is not None:
                    self._evaluate(lambda: recorded(*args, **kwargs), self.config.oracle)
                result = recorded(*args, **kwargs)
                if self._depth == 0:
                    jax.effects_barrier()
                return result

            def recorded(*args: Any, **kwargs: Any) -> Any:
                result = self._outermost(differentiate, *args, **kwargs)
                value = result[0][0] if has_aux else result[0]
                gradients = jax.tree.leaves(result[1])
                names = dict(found)

                def arrived(value: Any, *gradients: Any) -> None:
                    self._arrived(value, {names[i]: g for i, g in enumerate(gradients) if i in names})

                jax.debug.callback(arrived, value, *gradients, ordered=True)
                return result

            return call

        return functools.wraps(original)(value_and_grad)

    def _evaluate(self, step: Callable[[], Any], oracle: str) -> None:
        """The first step in high precision, what is recorded of it too; raises Stop, or ParityError PAR113."""
        try:
            self.recording.notes.append(evaluated(step, oracle))
        except (Unknown, Undecided, ImportError) as error:
            raise ParityError("PAR113", str(error)) from None
        raise Stop

    def _grad(self, value_and_grad: Callable[..., Any]) -> Callable[..., Any]:
        original = jax.grad

        def grad(fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
            both = value_and_grad(fun, argnums=argnums, has_aux=has_aux, **options)

            @functools.wraps(fun)
            def call(*args: Any, **kwargs: Any) -> Any:
                before, self._without_value = self._without_value, True
                try:
                    value, gradients = both(*args, **kwargs)
                finally:
                    self._without_value = before
                return (gradients, value[1]) if has_aux else gradients

            return call

        return functools.wraps(original)(grad)

    def _arrived(self, value: Any, gradients: dict[str, Any]) -> None:
        if len(self.recording.losses) >= self.config.steps:
            return
        kept, step = self.recording.gradients, self.step
        squares: dict[str, float] = {}
        for name, gradient in gradients.items():
            model = name.partition("|")[0]
            squares[model] = squares.get(model, 0.0) + float(np.square(np.asarray(gradient, np.float64)).sum())
        for model, square in squares.items():
            self.recording.note_curve(f"gradient|{model}", step, square**0.5)
        models = {m for m in _models_of(gradients) if wanted(kept, m, step, GRADIENT_STEPS)}
        new = {name: array_of(g) for name, g in gradients.items() if name.partition("|")[0] in models}
        if new:
            kept[step] = new
        self.recording.losses.append(float(np.asarray(value, np.float64).sum()))

    # --- models

    def _patch_init(self) -> None:
        original = nn.Module.init

        @functools.wraps(original)
        def init(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            outermost = self._init_depth == 0 and module.scope is None
            if outermost:  # torch's side has stopped before it made a model for what follows
                self._stop_if_done()
            self._init_depth += 1
            try:
                make = functools.partial(original, module, *args, **kwargs)
                return self.weights.initial(module, make) if outermost else make()
            finally:
                self._init_depth -= 1

        child.patch(nn.Module, "init", init)

    def _patch_apply(self) -> None:
        original = nn.Module.apply

        @functools.wraps(original)
        def apply(module: nn.Module, variables: Any, *args: Any, **kwargs: Any) -> Any:
            self.weights.check(module)
            if not self._differentiating or self._model is not None or module.scope is not None:
                return original(module, variables, *args, **kwargs)
            self._model, flat = self.weights.told_class(module), by_path(variables)
            self.scans.occurrence.clear()
            self._passes += 1
            self._fixed = self._are_fixed(jax.tree.leaves((variables, args, kwargs)))
            if not self._fixed or len(instances(self.weights.torch_side, self._model)) <= 1:
                self._note_variables(flat)
            try:
                return original(module, variables, *args, **kwargs)
            finally:
                self._model = None

        child.patch(nn.Module, "apply", apply)

    def _are_fixed(self, leaves: list[Any]) -> bool:
        """Whether neither a model's variables nor its inputs depend on what is differentiated, as those of a target
        network. What a loop carries may."""
        outside = (None, self._outside)
        return all(getattr(leaf, "_trace", None) in outside for leaf in leaves)

    def _note_variables(self, variables: dict[str, Any]) -> None:
        if not self.config.taps:
            return
        indices, names = self._inner
        model = self._model
        for path, leaf in variables.items():
            if id(leaf) in indices:
                names.setdefault(indices[id(leaf)], f"{model}|{path}")
        paths = list(variables)

        def arrived(*leaves: Any) -> None:
            self._note_distance(str(model), dict(zip(paths, leaves, strict=True)))
            if wanted(self.recording.states, str(model), self.step, STATE_STEPS):
                state = self.recording.states.setdefault(self.step, {})
                state.update({f"{model}|{path}": array_of(leaf) for path, leaf in zip(paths, leaves, strict=True)})

        jax.debug.callback(arrived, *variables.values(), ordered=True)

    def _note_distance(self, model: str, variables: dict[str, Any]) -> None:
        """How far the weights have come since the model's first step, whole and one by one."""
        if len(self.recording.losses) >= self.config.steps or str(self.step) in self.recording.curves.get(
            f"distance|{model}", ()
        ):
            return
        now = {key: np.array(leaf, np.float64) for key, leaf in variables.items() if key.startswith("params/")}
        first = self._start_weights.setdefault(model, now)
        same = [
            key for key in now if key in first and now[key].shape == first[key].shape
        ]  # of another size: no distance
        squares = {key: float(np.square(now[key] - first[key]).sum()) for key in same}
        for key, square in squares.items():
            self.recording.note_curve(f"distance|{model}|{key}", self.step, square**0.5)
        self.recording.note_curve(f"distance|{model}", self.step, sum(squares.values()) ** 0.5)

    def _intercept(self, call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        watched = self._differentiating and self._model is not None and context.method_name == "__call__"
        if not watched or not self.config.taps or self.scans.idle:
            return call(*args, **kwargs)
        path = f"{self._model}|{'/'.join(context.module.path)}"
        if self.probe.wanted(f"{path}|{self.scans.occurrence.get(path, 0)}"):
            args = self.probe.forced(context.module, args, kwargs)
        result = call(*args, **kwargs)
        recorder = self.scans.next_call(path, functools.partial(self.outputs.note, self._fixed, self._passes))
        for i, leaf in enumerate(_floats(result)):
            jax.debug.callback(recorder(i), of_first_turn(leaf))
        if is_packed(result):
            jax.debug.callback(recorder(LENGTHS), of_first_turn(result[1]))
        return result


def _floats(result: Any) -> list[Any]:
    """The float arrays in a module's output; what a distribution holds is none in torch."""
    leaves: list[Any] = []
    for one in jax.tree.leaves(result, is_leaf=_is_distribution):
        if _is_distribution(one) or isinstance(one, str):
            continue
        if dataclasses.is_dataclass(one) and not isinstance(one, type):  # an output with names, which is no pytree
            leaves += _floats([getattr(one, field.name) for field in dataclasses.fields(one)])
        else:
            leaves.append(one)
    return [leaf for leaf in leaves if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)]


def _is_distribution(value: Any) -> bool:
    return hasattr(value, "log_prob")


def _run_torch_data(dtype: str, seed: int) -> None:
    """A rewritten script may load its data with torch: its draws get the same stand-in, its seed the same start."""
    try:
        import torch
    except ModuleNotFoundError:  # an environment for JAX alone, and a script that loads nothing with torch
        return
    from parity import draws_torch, retyped_torch

    if dtype != "float32":
        retyped_torch.install(dtype)
    draws_torch.install()
    torch.set_num_threads(1)
    torch.manual_seed(seed)


def main(config_path: str) -> int:
    config = RunConfig.read(config_path)
    assert config.manifest and config.torch_recording
    torch_side = Recording.load(Path(config.torch_recording))
    _run_torch_data(config.dtype, config.seed)
    retyped = Retyped(config.dtype)
    if retyped.replaced:
        retyped.install()
    if config.products:
        products_jax.install(config.products)
    draws_jax.install()
    watcher = Watcher(config, Weights(config.manifest, torch_side), retyped)
    watcher.install()
    child.run_script(config, watcher.recording)
    try:
        jax.effects_barrier()
    except Exception as error:
        watcher.recording.notes.append(f"a callback failed: {error}")
    watcher.outputs.tell(watcher.weights.taken, torch_side.outputs)
    watcher.recording.matched = {name: model for model, name in reversed(watcher.weights.taken.items())}
    watcher.probe.finish()
    watcher.recording.save(Path(config.out))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if watcher.recording.error is None else 1)


if __name__ == "__main__":
    main(sys.argv[1])
