"""Match a manifest with the tensors that are there: which fills which, by which moves, or why not.

Planning looks at names, shapes and types only; no tensor is read. It goes both ways: from torch keys to Flax leaves,
and back.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from migrate.layers.moves import Move, Shape, agree, inverse, shape_after, shapes_between, show
from migrate.manifest import Leaf, ModelWeights
from weight_port.dtypes import DTYPES, is_float
from weight_port.errors import Problem, fail, raise_all
from weight_port.names import Lookup, Pattern
from weight_port.regions import TensorInfo


@dataclass(frozen=True)
class Step:
    """One tensor's way: read ``source``, apply ``moves``, convert to ``after.dtype``, store as ``target``."""

    source: str
    target: str
    moves: tuple[Move, ...]
    after: TensorInfo
    leaf: Leaf


@dataclass(frozen=True)
class Plan:
    """Steps in the manifest's order; ``dropped`` keys, each with the reason; ``ties`` as pairs (key, the same's key).

    Going to Flax, ties are pairs of keys to compare; going back, keys that repeat another.
    """

    model: str
    steps: tuple[Step, ...]
    dropped: tuple[tuple[str, str], ...] = ()
    ties: tuple[tuple[str, str], ...] = ()


class _Misfit(Exception):
    """A tensor that does not become the leaf; ``code`` says how."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_Convert = Callable[[Leaf, TensorInfo], tuple[tuple[Move, ...], TensorInfo]]


@dataclass(frozen=True)
class _Direction:
    """What differs between the way there and the way back. ``shape``: a source's, None where its rank is not known."""

    source: Callable[[Leaf], str]
    target: Callable[[Leaf], str]
    shape: Callable[[Leaf], Shape | None]
    convert: _Convert
    whole: str  # what the sources are called in messages


def plan_port(
    model: ModelWeights,
    tensors: Mapping[str, TensorInfo],
    *,
    opaque: Mapping[str, str] | None = None,
    dtype: np.dtype | None = None,
) -> Plan:
    """The way from torch keys to Flax leaves. Every key is used once or dropped with a reason, every leaf filled.

    opaque: keys that cannot be read, and what stands there. dtype: the type that floating-point leaves get.
    Raises one PortError (WPT005, WPT101 to WPT105) that lists everything that does not fit.
    """
    sources, ties = _resolve_ties(model, tensors)
    way = _Direction(
        source=lambda leaf: leaf.torch,
        target=lambda leaf: leaf.flax,
        shape=lambda leaf: shapes_between(leaf.moves, leaf.torch_shape, leaf.shape)[0],
        convert=lambda leaf, info: _forwards(leaf, info, dtype),
        whole="checkpoint",
    )
    steps, problems, unmatched, touched = _match(model, tensors, sources, way)
    unused = Lookup((entry.torch, entry) for entry in model.unused)
    reasons = {key: entry.reason for key in unmatched for entry, _ in unused.find(key)}
    leftover = [key for key in unmatched if key not in reasons]
    problems += _misfits(model, leftover, touched, way, opaque or {})
    problems += [_not_tied(key, same, tensors) for key, same in ties if tensors[key] != tensors[same]]
    raise_all(problems, f"the checkpoint does not fit the manifest's {model.name}")
    return Plan(model.name, steps, tuple(reasons.items()), tuple(ties))


def plan_unport(model: ModelWeights, tensors: Mapping[str, TensorInfo], *, dtype: np.dtype | None = None) -> Plan:
    """The way back: from Flax leaves to torch keys. Tied keys appear again; keys that were dropped do not.

    Raises one PortError (WPT101 to WPT104, WPT107) that lists everything that does not fit.
    """
    way = _Direction(
        source=lambda leaf: leaf.flax,
        target=lambda leaf: leaf.torch,
        shape=lambda leaf: shapes_between(leaf.moves, leaf.torch_shape, leaf.shape)[-1],
        convert=lambda leaf, info: _backwards(leaf, info, dtype),
        whole="Flax file",
    )
    steps, problems, unmatched, touched = _match(model, tensors, {name: name for name in tensors}, way)
    problems += _misfits(model, unmatched, touched, way, {})
    raise_all(problems, f"the Flax weights do not fit the manifest's {model.name}")
    same_as = Lookup((tie.same_as, tie) for tie in model.ties)
    found = [(Pattern(tie.torch).fill(ids), step.target) for step in steps for tie, ids in same_as.find(step.target)]
    return Plan(model.name, steps, (), tuple(found))


def choose_model(models: tuple[ModelWeights, ...], name: str | None) -> ModelWeights:
    """The model of that class, or the only one. Raises PortError WPT008."""
    names = [model.name for model in models]
    if name is None and len(models) == 1:
        return models[0]
    if name in names:
        return models[names.index(name)]
    listed = ", ".join(names) or "none"
    if name is None:
        fail("WPT008", f"the manifest describes {len(models)} models: {listed}", "Choose one by --model.")
    fail("WPT008", f"the manifest has no model {name!r}; it describes: {listed}", _near(name, names))


# --- matching ---------------------------------------------------------------------------------------------------------


def _resolve_ties(
    model: ModelWeights, tensors: Mapping[str, TensorInfo]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The names that leaves may ask for, each with the key to read; and the pairs of keys that must be equal.

    Where a checkpoint holds only the tied one of two keys (safetensors keeps one of them), it stands for both.
    """
    lookup = Lookup((tie.torch, tie) for tie in model.ties)
    tied = {key: Pattern(tie.same_as).fill(indices) for key in tensors for tie, indices in lookup.find(key)}
    sources = {key: key for key in tensors if key not in tied}
    pairs = []
    for key, same in tied.items():
        if same in sources:
            pairs.append((key, sources[same]))
        else:
            sources[same] = key
    return sources, pairs


def _match(
    model: ModelWeights, tensors: Mapping[str, TensorInfo], sources: Mapping[str, str], way: _Direction
) -> tuple[tuple[Step, ...], list[Problem], list[str], set[object]]:
    """The steps in the manifest's order, the problems, the keys that no leaf asks for, the leaves that were reached."""
    lookup = Lookup((way.source(leaf), leaf) for leaf in model.leaves)
    order = {_identity(leaf): i for i, leaf in enumerate(model.leaves)}
    steps: list[Step] = []
    problems: list[Problem] = []
    unmatched: list[str] = []
    touched: set[object] = set()
    filled: dict[str, str] = {}
    for name, key in sources.items():
        info = tensors[key]
        candidates = [(leaf, Pattern(way.target(leaf)).fill(indices)) for leaf, indices in lookup.find(name)]
        fits = [(leaf, target) for leaf, target in candidates if _same_rank(way.shape(leaf), info.shape)]
        # leaves that several layers of one nn.Sequential have alike (a bias) come to the same thing
        distinct = {(target, leaf.moves): leaf for leaf, target in fits or candidates}
        touched.update(map(_identity, distinct.values()))
        if not distinct:
            unmatched.append(key)
        elif len(distinct) > 1:
            problems.append(_undecided(key, info, distinct, fitting=bool(fits)))
        else:
            (target, _), leaf = distinct.popitem()
            if target in filled:
                problems.append(Problem("WPT104", f"{key} and {filled[target]} would both fill {target}"))
                continue
            filled[target] = key
            try:
                moves, after = way.convert(leaf, info)
            except _Misfit as misfit:
                problems.append(Problem(misfit.code, f"{key} -> {target}: {misfit}"))
            else:
                steps.append(Step(key, target, moves, after, leaf))
    steps.sort(key=lambda step: order[_identity(step.leaf)])
    return tuple(steps), problems, unmatched, touched


def _identity(leaf: Leaf) -> object:
    return leaf.flax, leaf.torch, leaf.moves


def _same_rank(expected: Shape | None, shape: Shape) -> bool:
    return expected is None or len(expected) == len(shape)


def _forwards(leaf: Leaf, info: TensorInfo, dtype: np.dtype | None) -> tuple[tuple[Move, ...], TensorInfo]:
    after = _shape_after(leaf.moves, info)
    if leaf.shape is not None and not agree(after, leaf.shape):
        moved = f", which becomes {show(after)}" if leaf.moves else ""
        raise _Misfit("WPT103", f"it has the shape {show(info.shape)}{moved}; the manifest says {show(leaf.shape)}")
    return leaf.moves, TensorInfo(after, _dtype(leaf, info.dtype, dtype))


def _backwards(leaf: Leaf, info: TensorInfo, dtype: np.dtype | None) -> tuple[tuple[Move, ...], TensorInfo]:
    if leaf.shape is not None and not agree(info.shape, leaf.shape):
        raise _Misfit("WPT103", f"it has the shape {show(info.shape)}; the manifest says {show(leaf.shape)}")
    try:
        back = inverse(leaf.moves, leaf.torch_shape, info.shape)
    except ValueError as error:
        raise _Misfit("WPT107", str(error)) from None
    return back, TensorInfo(_shape_after(back, info), dtype if dtype and is_float(info.dtype) else info.dtype)


def _shape_after(moves: tuple[Move, ...], info: TensorInfo) -> tuple[int, ...]:
    try:
        after = shape_after(moves, info.shape)
    except ValueError as error:
        raise _Misfit("WPT103", f"it has the shape {show(info.shape)}, and {error}") from None
    return tuple(length for length in after if length is not None)  # moves of a known shape leave none unknown


def _dtype(leaf: Leaf, stored: np.dtype, wanted: np.dtype | None) -> np.dtype:
    """The type of the leaf: the caller's for floating-point leaves, then the manifest's, then as stored."""
    if wanted is not None and is_float(stored):
        return wanted
    if leaf.dtype is None:
        return stored
    if leaf.dtype not in DTYPES:
        raise _Misfit("WPT103", f"the manifest's dtype {leaf.dtype!r} is not one of {', '.join(DTYPES)}")
    named = DTYPES[leaf.dtype]
    if is_float(named) != is_float(stored) or (named.kind == "c") != (stored.kind == "c"):
        raise _Misfit("WPT103", f"it has the type {stored}; the manifest says {leaf.dtype}")
    return named


# --- what did not fit -------------------------------------------------------------------------------------------------


def _misfits(
    model: ModelWeights, leftover: list[str], touched: set[object], way: _Direction, opaque: Mapping[str, str]
) -> list[Problem]:
    """Keys that no leaf asks for, then leaves that no key fills; each with the nearest name among the others."""
    unfilled = [leaf for leaf in dict.fromkeys(model.leaves) if not leaf.optional and _identity(leaf) not in touched]
    free, every = [way.source(leaf) for leaf in unfilled], [way.source(leaf) for leaf in model.leaves]
    advice = 'If nobody needs it, list it under "unused" in the manifest.'
    problems = [
        Problem("WPT101", f"nothing uses {key}", _near(key, free) or _near(key, every) or advice) for key in leftover
    ]
    for leaf in unfilled:
        name, what = way.source(leaf), opaque.get(way.source(leaf))
        message = f"nothing fills {way.target(leaf)}: the {way.whole} has no {name}"
        unreadable = f"{name}, which {way.target(leaf)} needs, is {what}, not a plain tensor"
        problems.append(
            Problem("WPT102", message, _near(name, leftover))
            if what is None
            else Problem("WPT005", unreadable, "Save it as a plain tensor with torch.")
        )
    return problems


def _undecided(
    key: str, info: TensorInfo, leaves: Mapping[tuple[str, tuple[Move, ...]], Leaf], *, fitting: bool
) -> Problem:
    listed = " or ".join(f"{target} {show(leaf.shape)}" for (target, _), leaf in leaves.items())
    if fitting:
        advice = "The rank does not decide. Write the leaves without wildcards, so that the names do."
        return Problem("WPT104", f"{key} {show(info.shape)} could fill {listed}", advice)
    return Problem("WPT103", f"{key} {show(info.shape)} has the rank of none of {listed}")


def _not_tied(key: str, same: str, tensors: Mapping[str, TensorInfo]) -> Problem:
    one, other = tensors[key], tensors[same]
    return Problem(
        "WPT105",
        f"{key} {show(one.shape)} {one.dtype} is to be one tensor with {same} {show(other.shape)} {other.dtype}",
    )


def _near(name: str, names: list[str]) -> str:
    """A hint with up to three names that resemble ``name``, or an empty text."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return f"Near: {', '.join(near)}" if near else ""
