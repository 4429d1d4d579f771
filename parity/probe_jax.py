"""One call of one Flax module, looked into: it is given torch's inputs, and every value of its jaxpr is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity.record import Recording, RunConfig

# Primitives that only call a jaxpr on their operands.
_CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2"}


class Probe:
    def __init__(self, config: RunConfig, recording: Recording) -> None:
        self.call, self.recording = config.probe, recording
        self.theirs = Recording.load(Path(config.probe_inputs)).inputs if config.probe_inputs else {}
        self._alone: Any = None
        self._arrived: tuple[Any, Any] | None = None

    def wanted(self, call: str) -> bool:
        return call == self.call

    def forced(self, module: Any, args: Any, kwargs: Any) -> Any:
        """The arguments with torch's in their place, where the shapes allow; JAX's own are recorded."""
        leaves, tree = jax.tree.flatten(args)
        arrays = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray))]
        floats = [i for i in arrays if jnp.issubdtype(leaves[i].dtype, jnp.floating)]
        for position, i in enumerate(floats):
            jax.debug.callback(self._note(position), leaves[i])
            theirs = self.theirs.get(str(position))
            fitting = None if theirs is None else _fitting(theirs, leaves[i].shape)
            if fitting is not None:
                leaves[i] = jnp.asarray(fitting, leaves[i].dtype)
        alone = module.clone(parent=None)
        rest = [None if i in arrays else leaf for i, leaf in enumerate(leaves)]

        def call(variables: Any, *given: Any) -> Any:
            filled = list(rest)
            for i, value in zip(arrays, given, strict=True):
                filled[i] = value
            rngs = {name: jax.random.key(0) for name in ("params", "dropout")}
            mutable = [name for name in variables if name != "params"]
            return alone.apply(variables, *jax.tree.unflatten(tree, filled), **kwargs, rngs=rngs, mutable=mutable)

        self._alone = call
        jax.debug.callback(self._keep, dict(module.variables), [leaves[i] for i in arrays])
        return jax.tree.unflatten(tree, leaves)

    def _note(self, position: int) -> Any:
        def note(value: Any) -> None:
            self.recording.inputs.setdefault(str(position), np.asarray(value).copy())

        return note

    def _keep(self, variables: Any, leaves: Any) -> None:
        if self._arrived is None:
            self._arrived = (jax.tree.map(np.asarray, variables), [np.asarray(leaf) for leaf in leaves])

    def finish(self) -> None:
        """The module by itself on the arguments that it had, one primitive after the other."""
        if self._arrived is None:
            return
        variables, leaves = self._arrived
        try:
            closed = jax.make_jaxpr(self._alone)(variables, *leaves)
            _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves((variables, leaves)), self.recording)
        except Exception as error:  # what cannot be looked into is no finding
            self.recording.notes.append(f"the jaxpr of {self.call} could not be followed: {type(error).__name__}")


def _fitting(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    moved = np.moveaxis(value, 1, -1) if value.ndim > 2 else value
    return next((layout for layout in (value, moved) if layout.shape == shape), None)


def _evaluate(jaxpr: core.Jaxpr, consts: Any, arguments: Any, recording: Recording) -> list[Any]:
    """Each equation in order; calls of inner jaxprs are entered."""
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
    for equation in jaxpr.eqns:
        given = [v.val if isinstance(v, core.Literal) else values[v] for v in equation.invars]
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        if equation.primitive.name in _CALLS and inner is not None:
            plain, constants = (inner.jaxpr, inner.consts) if hasattr(inner, "jaxpr") else (inner, ())
            results = _evaluate(plain, constants, given, recording)
        else:
            found = equation.primitive.bind(*given, **equation.params)
            results = found if equation.primitive.multiple_results else [found]
            for result in results:
                if jnp.issubdtype(jnp.result_type(result), jnp.floating):
                    name = f"{equation.primitive.name}|{_line(equation)}|{len(recording.operations)}"
                    recording.operations[name] = np.asarray(result, np.float64)
        values.update(zip(equation.outvars, results, strict=True))
    return [v.val if isinstance(v, core.Literal) else values[v] for v in jaxpr.outvars]


def _line(equation: Any) -> str:
    """The innermost line of the user's, or of Flax's layer, "train_jax.py:40"."""
    frames = equation.source_info.traceback.frames if equation.source_info.traceback else []
    for wanted in (_is_users, _is_flax):
        for frame in frames:
            if wanted(frame.file_name):
                return f"{frame.file_name.rpartition('/')[2]}:{frame.line_num}"
    return ""


def _is_users(file: str) -> bool:
    return not any(
        part in file for part in ("site-packages", "<frozen", "runpy.py", "contextlib", str(Path(__file__).parent))
    )


def _is_flax(file: str) -> bool:
    return "/flax/linen/" in file and not file.endswith(("module.py", "transforms.py"))
