"""Match a manifest with the tensors that are there: which fills which, by which moves, or why not.

Planning looks at names, shapes and types only; no tensor is read. It goes both ways: from torch keys to Flax leaves,
and back.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from migrate.layers.moves import Add, Move, Piece, Shape, Stack, agree, cut, inverse, shape_after, shapes_between, show
from migrate.manifest import Leaf, ModelWeights
from weight_port.dtypes import DTYPES, is_float
from weight_port.errors import Problem, fail, raise_all
from weight_port.names import Lookup, Pattern
from weight_port.pieces import Index, covers, index_of, whole_shape
from weight_port.regions import TensorInfo


@dataclass(frozen=True)
class Source:
    """A piece of a target: read ``key`` (zeros where it is None), cut ``take`` out, apply ``moves``, fill ``put``.

    ``shape`` is the piece's after the moves; ``take`` and ``put`` are numpy indices, empty for the whole.
    """

    key: str | None
    moves: tuple[Move, ...]
    shape: tuple[int, ...]
    take: Index = ()
    put: Index = ()


@dataclass(frozen=True)
class Step:
    """One tensor's way: its sources, put together (or ``added``), converted to ``after.dtype``, become ``target``.

    ``affine``: a scale and a shift applied on the way, None where every bit is kept.
    """

    target: str
    sources: tuple[Source, ...]
    after: TensorInfo
    leaf: Leaf
    added: bool = False
    affine: tuple[float, float] | None = None

    @property
    def source(self) -> str:
        """The key that it comes from: the first, where there are several."""
        return self.sources[0].key or ""

    @property
    def moves(self) -> tuple[Move, ...]:
        return self.sources[0].moves


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


DtypeRule: TypeAlias = Callable[[str], np.dtype | None]  # a name's type, None where it stays as it is
_Convert = Callable[[Leaf, str, TensorInfo], tuple[tuple[Move, ...], TensorInfo]]


@dataclass(frozen=True)
class _Direction:
    """What differs between the way there and the way back. ``shape``: a source's, None where its rank is not known."""

    source: Callable[[Leaf], str]
    target: Callable[[Leaf], str]
    shape: Callable[[Leaf], Shape | None]
    whole_shape: Callable[[Leaf], Shape | None]  # of the target
    take: Callable[[Leaf], tuple[Piece, ...]]
    put: Callable[[Leaf], tuple[Piece, ...]]
    affine: Callable[[Leaf], tuple[float, float]]
    convert: _Convert
    whole: str  # what the sources are called in messages


def plan_port(
    model: ModelWeights,
    tensors: Mapping[str, TensorInfo],
    *,
    opaque: Mapping[str, str] | None = None,
    dtype: np.dtype | DtypeRule | None = None,
) -> Plan:
    """The way from torch keys to Flax leaves. Every key is used once or dropped with a reason, every leaf filled.

    opaque: keys that cannot be read, and what stands there. dtype: the type that floating-point leaves get, or a
    function that gives it for a leaf's path (None: as it is stored).
    Raises one PortError (WPT005, WPT101 to WPT105) that lists everything that does not fit.
    """
    rule = _rule(dtype)
    sources, ties = _resolve_ties(model, tensors)
    way = _Direction(
        source=lambda leaf: leaf.torch,
        target=lambda leaf: leaf.flax,
        shape=lambda leaf: _between(leaf)[0] if not leaf.take else leaf.torch_shape,
        whole_shape=lambda leaf: leaf.shape,
        take=lambda leaf: leaf.take,
        put=lambda leaf: leaf.put,
        affine=lambda leaf: (leaf.scale, leaf.shift),
        convert=lambda leaf, target, info: _forwards(leaf, info, rule(target)),
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


def plan_unport(
    model: ModelWeights, tensors: Mapping[str, TensorInfo], *, dtype: np.dtype | DtypeRule | None = None
) -> Plan:
    """The way back: from Flax leaves to torch keys. Tied keys appear again; keys that were dropped do not.

    Raises one PortError (WPT101 to WPT104, WPT107) that lists everything that does not fit.
    """
    rule = _rule(dtype)
    way = _Direction(
        source=lambda leaf: leaf.flax,
        target=lambda leaf: leaf.torch,
        shape=lambda leaf: _between(leaf)[-1] if not leaf.put else leaf.shape,
        whole_shape=lambda leaf: leaf.torch_shape,
        take=lambda leaf: leaf.put,
        put=lambda leaf: leaf.take,
        affine=lambda leaf: (1 / leaf.scale, 0 - leaf.shift / leaf.scale),
        convert=lambda leaf, target, info: _backwards(leaf, info, rule(target)),
        whole="Flax file",
    )
    steps, problems, unmatched, touched = _match(model, tensors, {name: name for name in tensors}, way)
    problems += _misfits(model, unmatched, touched, way, {})
    raise_all(problems, f"the Flax weights do not fit the manifest's {model.name}")
    same_as = Lookup((tie.same_as, tie) for tie in model.ties)
    found = [(Pattern(tie.torch).fill(ids), step.target) for step in steps for tie, ids in same_as.find(step.target)]
    return Plan(model.name, steps, (), tuple(found))


def _rule(dtype: np.dtype | DtypeRule | None) -> DtypeRule:
    if dtype is None or isinstance(dtype, np.dtype):
        return lambda name: dtype
    return dtype


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


@dataclass(frozen=True)
class _Candidate:
    """A leaf that a key matches, with the numbers of the wildcards."""

    leaf: Leaf
    target: str
    numbers: Mapping[str, str]


@dataclass(frozen=True)
class _Edge:
    """A candidate that was chosen and fits: what its source gives, and the type that it gets."""

    found: _Candidate
    source: Source
    dtype: np.dtype


def _match(
    model: ModelWeights, tensors: Mapping[str, TensorInfo], sources: Mapping[str, str], way: _Direction
) -> tuple[tuple[Step, ...], list[Problem], list[str], set[object]]:
    """The steps in the manifest's order, the problems, the keys that no leaf asks for, the leaves that were reached."""
    lookup = Lookup((way.source(leaf), leaf) for leaf in model.leaves)
    order = {_identity(leaf): i for i, leaf in enumerate(model.leaves)}
    edges: dict[str, list[_Edge]] = {}
    problems: list[Problem] = []
    unmatched: list[str] = []
    touched: set[object] = set()
    for name, key in sources.items():
        info = tensors[key]
        candidates = [found for leaf, ids in lookup.find(name) for found in _expand(leaf, ids, info, way)]
        fits = [found for found in candidates if _same_rank(way.shape(found.leaf), info.shape)]
        # leaves that several layers of one nn.Sequential have alike (a bias) come to the same thing
        distinct = {(f.target, f.leaf.moves, _cuts(f, way)): f for f in fits or candidates}
        touched.update(_identity(found.leaf) for found in fits or candidates)
        if not distinct:
            unmatched.append(key)
        elif len(distinct) > 1 and not all(way.take(found.leaf) for found in distinct.values()):
            listed = {(found.target, found.leaf.moves): found.leaf for found in distinct.values()}
            problems.append(_undecided(key, info, listed, fitting=bool(fits)))
        else:
            made, wrong = _edges(key, info, list(distinct.values()), way)
            problems += wrong
            for edge in made:
                edges.setdefault(edge.found.target, []).append(edge)
    steps: list[Step] = []
    for target, group in edges.items():
        try:
            steps.append(_step(target, group, way))
        except _Misfit as misfit:
            problems.append(Problem(misfit.code, str(misfit)))
    steps.sort(key=lambda step: order[_identity(step.leaf)])
    return tuple(steps), problems, unmatched, touched


def _expand(leaf: Leaf, numbers: dict[str, str], info: TensorInfo, way: _Direction) -> list[_Candidate]:
    """One candidate, or where the source is a stack one for each place in it."""
    many = [numbers]
    shape: Shape | None = info.shape
    for piece in way.take(leaf):
        if isinstance(piece, Stack) and shape is not None and piece.axis < len(shape):
            many = [ids | {piece.index: str(i)} for ids in many for i in range(shape[piece.axis] or 0)]
        try:
            shape = cut((piece,), shape)
        except ValueError:
            shape = None  # said where the piece is taken
    target = Pattern(way.target(leaf))
    return [_Candidate(leaf, target.fill(ids), ids) for ids in many]


def _cuts(found: _Candidate, way: _Direction) -> object:
    """The part of a tensor that is taken and the place that it goes to; nothing where whole tensors go to whole ones,
    whether a leaf spells their number out or leaves it open."""
    take, put = way.take(found.leaf), way.put(found.leaf)
    return (take, put, tuple(sorted(found.numbers.items()))) if take or put else ()


def _edges(key: str, info: TensorInfo, chosen: list[_Candidate], way: _Direction) -> tuple[list[_Edge], list[Problem]]:
    """What one tensor gives to the leaves that ask for it."""
    made: list[_Edge] = []
    for found in chosen:
        take = way.take(found.leaf)
        try:
            taken = _cut(take, info)
            moves, after = way.convert(found.leaf, found.target, taken)
            index = index_of(take, found.numbers, info.shape)
        except _Misfit as misfit:
            return [], [Problem(misfit.code, f"{key} -> {found.target}: {misfit}")]
        added_before = bool(made) and any(isinstance(piece, Add) for piece in take)
        made.append(_Edge(found, Source(None if added_before else key, moves, after.shape, index), after.dtype))
    taken = [edge.source.take for edge in made if edge.source.key is not None]
    if any(taken) and not covers(taken, info.shape) and not any(isinstance(p, Add) for p in way.take(chosen[0].leaf)):
        listed = ", ".join(found.target for found in chosen)
        return [], [Problem("WPT108", f"{key} {show(info.shape)}: what {listed} take of it is not all of it, once")]
    return made, []


def _cut(take: tuple[Piece, ...], info: TensorInfo) -> TensorInfo:
    try:
        shape = cut(take, info.shape)
    except ValueError as error:
        raise _Misfit("WPT103", str(error)) from None
    return TensorInfo(tuple(length for length in shape or () if length is not None), info.dtype)


def _step(target: str, group: list[_Edge], way: _Direction) -> Step:
    """The step that puts the pieces of one target together."""
    puts = [way.put(edge.found.leaf) for edge in group]
    leaf, first = group[0].found.leaf, group[0].source
    added = any(isinstance(piece, Add) for put in puts for piece in put)
    if len(group) > 1 and not all(puts):
        raise _Misfit("WPT104", f"{group[1].source.key} and {first.key} would both fill {target}")
    dtypes = {edge.dtype for edge in group}
    if len(dtypes) > 1:
        listed = ", ".join(sorted(map(str, dtypes)))
        raise _Misfit("WPT103", f"{target} is put together of tensors of different types: {listed}")
    affines = {way.affine(edge.found.leaf) for edge in group}
    if len(affines) > 1:
        raise _Misfit("WPT103", f"{target} is put together of tensors with different scales or shifts")
    affine = None if affines == {(1.0, 0.0)} else affines.pop()
    if affine and not is_float(group[0].dtype):
        raise _Misfit("WPT103", f"{target} has a scale or a shift, but the type {group[0].dtype}")
    if not puts[0]:
        return Step(target, (first,), TensorInfo(first.shape, group[0].dtype), leaf, affine=affine)
    try:
        shape = whole_shape(first.shape, puts, [edge.found.numbers for edge in group], way.whole_shape(leaf))
    except ValueError as error:
        raise _Misfit("WPT103", f"{target}: {error}") from None
    if shape is None:
        raise _Misfit("WPT107", f'{target}: the pieces do not tell its shape; state it as "shape" or "torch_shape"')
    made = []
    for edge, put in zip(group, puts, strict=True):
        index = index_of(put, edge.found.numbers, shape)
        room = tuple(s.stop - s.start for s in index if isinstance(s, slice))
        if index and room != edge.source.shape:
            raise _Misfit("WPT103", f"{edge.source.key} -> {target}: {show(edge.source.shape)} is to fill {show(room)}")
        made.append(replace(edge.source, put=index))
    distinct = list({str(source.put): source.put for source in made}.values()) if added else [s.put for s in made]
    if not covers(distinct, shape):
        listed = ", ".join(str(source.key) for source in made[:6])
        raise _Misfit("WPT108", f"{target} {show(shape)}: {listed} do not fill all of it, each place once")
    return Step(target, tuple(made), TensorInfo(shape, group[0].dtype), leaf, added, affine)


def _identity(leaf: Leaf) -> object:
    return leaf.flax, leaf.torch, leaf.moves, leaf.take, leaf.put


def _between(leaf: Leaf) -> list[Shape | None]:
    return shapes_between(leaf.moves, leaf.taken_shape, leaf.moved_shape)


def _same_rank(expected: Shape | None, shape: Shape) -> bool:
    return expected is None or len(expected) == len(shape)


def _forwards(leaf: Leaf, info: TensorInfo, wanted: np.dtype | None) -> tuple[tuple[Move, ...], TensorInfo]:
    after, expected = _shape_after(leaf.moves, info), leaf.moved_shape
    if expected is not None and not agree(after, expected):
        moved = f", which becomes {show(after)}" if leaf.moves else ""
        raise _Misfit("WPT103", f"it has the shape {show(info.shape)}{moved}; the manifest says {show(expected)}")
    return leaf.moves, TensorInfo(after, _dtype(leaf, info.dtype, wanted))


def _backwards(leaf: Leaf, info: TensorInfo, wanted: np.dtype | None) -> tuple[tuple[Move, ...], TensorInfo]:
    expected = leaf.moved_shape
    if expected is not None and not agree(info.shape, expected):
        raise _Misfit("WPT103", f"it has the shape {show(info.shape)}; the manifest says {show(expected)}")
    try:
        back = inverse(leaf.moves, leaf.taken_shape, info.shape)
    except ValueError as error:
        raise _Misfit("WPT107", str(error)) from None
    return back, TensorInfo(_shape_after(back, info), wanted if wanted and is_float(info.dtype) else info.dtype)


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
