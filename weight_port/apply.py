"""Carry out a plan: in memory, or as a stream of bytes that needs little of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from migrate.manifest import ModelWeights
from weight_port.dtypes import is_float
from weight_port.errors import Problem, fail, raise_all
from weight_port.names import joined, parts_of
from weight_port.outputs import Window
from weight_port.plan import Plan, Source, Step
from weight_port.planning import plan_port, plan_unport
from weight_port.regions import TensorInfo
from weight_port.told_ties import as_kept, as_tied
from weight_port.views import LARGEST_SLAB, SLAB, Scratch, copy, in_order, moved, same_bits, slabs

Read = Callable[[str], np.ndarray]


def run_step(step: Step, read: Read) -> np.ndarray:
    """One output of a plan, in memory. Raises PortError WPT106 where its type cannot hold the values."""
    if len(step.sources) == 1 and not step.sources[0].put:
        return _finished(_piece(step.sources[0], read, step.after.dtype), step)
    return np.concatenate([part.copy() for part in stream_step(step, read)] or [np.empty(0, step.after.dtype)]).reshape(
        step.after.shape
    )


def stream_step(
    step: Step, read: Read, window: Window | None = None, scratch: Scratch | None = None
) -> Iterator[np.ndarray]:
    """The bytes of one output in row-major order: flat arrays, each good until the next is asked for.

    What it needs of memory does not grow with the tensor. window: only that part of the output.
    """
    scratch = scratch or Scratch()
    parts = _joined(step, read, window, scratch) if step.sources[0].put else _single(step, read, window, scratch)
    for part in parts:
        yield _finished(part, step)


def _single(step: Step, read: Read, window: Window | None, scratch: Scratch) -> Iterator[np.ndarray]:
    source = step.sources[0]
    if window is None and source.key is not None:
        taken = read(source.key)[source.take] if source.take else read(source.key)
        yield from slabs(in_order(taken, source.moves), scratch)
    else:
        piece = _piece(source, read, step.after.dtype)
        yield from slabs(piece if window is None else piece[window], scratch)


def _joined(step: Step, read: Read, window: Window | None, scratch: Scratch) -> Iterator[np.ndarray]:
    """Rows of the output, as many as fit the scratch, filled from every source that reaches into them."""
    shape = step.after.shape
    pieces = [(source, _piece(source, read, step.after.dtype)) for source in step.sources]
    window = window or tuple(slice(0, length) for length in shape)
    lengths = [s.stop - s.start for s in window]
    dtype = next((piece.dtype for source, piece in pieces if source.key is not None), step.after.dtype)
    row = int(np.prod(lengths[1:], dtype=np.int64)) * dtype.itemsize
    rows = max(1, min(max(SLAB // max(row, 1), 128), LARGEST_SLAB // max(row, 1)))
    for start in range(window[0].start, window[0].stop, rows):
        stop = min(start + rows, window[0].stop)
        out = scratch.array((stop - start, *lengths[1:]), dtype)
        filled: set[str] = set()
        for source, piece in pieces:
            overlap = _overlap(source, shape, (slice(start, stop), *window[1:]))
            if overlap is None:
                continue
            there, here = overlap
            target = out[there]
            if step.added and str(source.put) in filled:
                target += piece[here]
            else:
                copy(target, piece[here])
            filled.add(str(source.put))
        yield out.reshape(-1)


def _overlap(source: Source, shape: tuple[int, ...], window: Window) -> tuple[Any, Any] | None:
    """Where a source's piece lies within a window of the output, and which part of the piece that is."""
    there: list[Any] = []
    here: list[slice] = []
    for entry, w in zip(source.put or tuple(slice(0, n) for n in shape), window, strict=True):
        if isinstance(entry, int):
            if not w.start <= entry < w.stop:
                return None
            there.append(entry - w.start)
            continue
        start, stop = max(entry.start, w.start), min(entry.stop, w.stop)
        if start >= stop:
            return None
        there.append(slice(start - w.start, stop - w.start))
        here.append(slice(start - entry.start, stop - entry.start))
    return tuple(there), tuple(here)


def _piece(source: Source, read: Read, dtype: np.dtype) -> np.ndarray:
    """A piece of a target as a view; zeros of ``dtype`` where nothing fills it."""
    if source.key is None:
        return np.broadcast_to(np.zeros((), dtype), source.shape)
    array = read(source.key)
    return moved(array[source.take] if source.take else array, source.moves)


def check_ties(plan: Plan, read: Read) -> None:
    """Compare the tensors that are to be one, bit for bit. Raises PortError WPT105."""
    differing = [(tied, same) for tied, same in plan.ties if not same_bits(read(tied), read(same))]
    problems = [Problem("WPT105", f"{tied} and {same} are to be one tensor, but differ") for tied, same in differing]
    raise_all(problems, f"the checkpoint does not fit the manifest's {plan.model}")


def check_copies(plan: Plan, read: Read) -> None:
    """Compare the leaves that hold one torch tensor, bit for bit. Raises PortError WPT105."""
    steps = {step.target: step for step in plan.steps}
    problems = [
        Problem(
            "WPT105", f"{copy.source} and {steps[copy.target].source} are to be one tensor, {copy.target}, but differ"
        )
        for copy in plan.copies
        if copy.target in steps and not _equal(copy, steps[copy.target], read)
    ]
    raise_all(problems, f"the Flax weights do not fit the manifest's {plan.model}")


def _equal(one: Step, other: Step, read: Read) -> bool:
    return one.after == other.after and same_bits(run_step(one, read), run_step(other, read))


def port_state_dict(state: Mapping[str, np.ndarray], model: ModelWeights) -> dict[str, Any]:
    """Torch's state dict as Flax variables, ``{"params": {"conv1": {"kernel": ...}}, "batch_stats": ...}``.

    Strict both ways: raises PortError (WPT1xx) where a key is not used or a leaf not filled. The arrays are new.
    """
    model = as_tied(model, state, state.__getitem__)
    plan = plan_port(model, infos(state))
    check_ties(plan, state.__getitem__)
    return nest({step.target: _fresh(run_step(step, state.__getitem__)) for step in plan.steps})


def unport_tree(tree: Mapping[str, Any], model: ModelWeights) -> dict[str, np.ndarray]:
    """The inverse of `port_state_dict`: Flax variables as a torch state dict.

    The arrays are new; a tied key has the same array as its fellow. Keys that the manifest calls unused are absent.
    """
    flat = flatten(tree)
    plan = plan_unport(as_kept(model, flat), infos(flat))
    check_copies(plan, flat.__getitem__)
    state = {step.target: _fresh(run_step(step, flat.__getitem__)) for step in plan.steps}
    return state | {tied: state[same] for tied, same in plan.ties}


def infos(arrays: Mapping[str, Any]) -> dict[str, TensorInfo]:
    return {name: TensorInfo(tuple(array.shape), np.dtype(array.dtype)) for name, array in arrays.items()}


def _fresh(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="C")


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """``{"params/fc/kernel": x}`` as ``{"params": {"fc": {"kernel": x}}}``."""
    tree: dict[str, Any] = {}
    for path, array in flat.items():
        *parents, name = parts_of(path)
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = array
    return tree


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """The inverse of `nest`; names at the top may be paths already."""
    flat: dict[str, np.ndarray] = {}
    for name, value in tree.items():
        path = prefix + joined((name,)) if prefix else str(name)
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}/")
        else:
            flat[path] = np.asarray(value)
    return flat


def _finished(array: np.ndarray, step: Step) -> np.ndarray:
    """The values and the type that the target is to have; the array itself where it has them."""
    if step.affine is not None:
        scale, shift = step.affine
        array = array.astype(np.float64 if array.dtype.itemsize == 8 else np.float32) * scale + shift
    return array if array.dtype == step.after.dtype else _convert(array, step)


def _convert(array: np.ndarray, step: Step) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(step.after.dtype)
        if is_float(array.dtype):
            kept = np.array_equal(np.isfinite(converted), np.isfinite(array))
        else:
            kept = np.array_equal(converted.astype(array.dtype), array)
    if not kept:
        fail("WPT106", f"{step.source}: {step.after.dtype} cannot hold all of its values (they are {array.dtype})")
    return converted
