"""Carry out a plan, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from migrate.layers.moves import Flip, Move, Permute
from migrate.manifest import ModelWeights
from weight_port.dtypes import is_float
from weight_port.errors import Problem, fail, raise_all
from weight_port.plan import Plan, Step, plan_port, plan_unport
from weight_port.regions import TensorInfo


def apply_moves(array: np.ndarray, moves: Iterable[Move]) -> np.ndarray:
    """The array after the moves: a view where they allow it, else (a reshape of permuted axes) a copy."""
    for move in moves:
        if isinstance(move, Permute):
            array = array.transpose(move.axes)
        elif isinstance(move, Flip):
            array = np.flip(array, move.axes)
        else:
            array = array.reshape(move.dims)
    return array


def run_step(step: Step, read: Callable[[str], np.ndarray]) -> np.ndarray:
    """One output of a plan. Raises PortError WPT106 where its type cannot hold the values."""
    array = apply_moves(read(step.source), step.moves)
    return array if array.dtype == step.after.dtype else _convert(array, step)


def check_ties(plan: Plan, read: Callable[[str], np.ndarray]) -> None:
    """Compare the tensors that are to be one, bit for bit. Raises PortError WPT105."""
    differing = [(tied, same) for tied, same in plan.ties if not _same_bits(read(tied), read(same))]
    problems = [Problem("WPT105", f"{tied} and {same} are to be one tensor, but differ") for tied, same in differing]
    raise_all(problems, f"the checkpoint does not fit the manifest's {plan.model}")


def port_state_dict(state: Mapping[str, np.ndarray], model: ModelWeights) -> dict[str, Any]:
    """Torch's state dict as Flax variables, ``{"params": {"conv1": {"kernel": ...}}, "batch_stats": ...}``.

    Strict both ways: raises PortError (WPT1xx) where a key is not used or a leaf not filled. The arrays are new.
    """
    plan = plan_port(model, _infos(state))
    check_ties(plan, state.__getitem__)
    return _nest({step.target: _fresh(run_step(step, state.__getitem__)) for step in plan.steps})


def unport_tree(tree: Mapping[str, Any], model: ModelWeights) -> dict[str, np.ndarray]:
    """The inverse of `port_state_dict`: Flax variables as a torch state dict.

    The arrays are new; a tied key has the same array as its fellow. Keys that the manifest calls unused are absent.
    """
    flat = _flatten(tree)
    plan = plan_unport(model, _infos(flat))
    state = {step.target: _fresh(run_step(step, flat.__getitem__)) for step in plan.steps}
    return state | {tied: state[same] for tied, same in plan.ties}


def _infos(arrays: Mapping[str, Any]) -> dict[str, TensorInfo]:
    return {name: TensorInfo(tuple(array.shape), np.dtype(array.dtype)) for name, array in arrays.items()}


def _fresh(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="C")


def _nest(flat: Mapping[str, np.ndarray]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, array in flat.items():
        *parents, name = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = array
    return tree


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    flat: dict[str, np.ndarray] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}/")
        else:
            flat[f"{prefix}{name}"] = np.asarray(value)
    return flat


def _convert(array: np.ndarray, step: Step) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(step.after.dtype)
        if is_float(array.dtype):
            kept = np.array_equal(np.isfinite(converted.astype(np.float64)), np.isfinite(array.astype(np.float64)))
        else:
            kept = np.array_equal(converted.astype(array.dtype), array)
    if not kept:
        fail("WPT106", f"{step.source}: {step.after.dtype} cannot hold all of its values (they are {array.dtype})")
    return converted


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """NaNs included; shapes and types are known to be equal."""
    size = one.dtype.itemsize
    if size > 8:  # complex128
        return one.tobytes() == other.tobytes()
    return bool((one.view(f"u{size}") == other.view(f"u{size}")).all())
