"""Pair the tensors that are there with the leaves that ask for them."""

from __future__ import annotations

from collections.abc import Mapping

from migrate.layers.moves import Add, Piece, Shape, Stack, cut, show
from migrate.manifest import Leaf, ModelWeights
from weight_port.assembly import Candidate, Edge, assembled
from weight_port.direction import Direction
from weight_port.errors import Misfit, Problem
from weight_port.misfits import identity, undecided
from weight_port.names import Lookup, Pattern
from weight_port.pieces import covers, index_of
from weight_port.plan import Source, Step
from weight_port.regions import TensorInfo


def resolve_ties(
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


def pair(
    model: ModelWeights, tensors: Mapping[str, TensorInfo], sources: Mapping[str, str], way: Direction
) -> tuple[tuple[Step, ...], list[Problem], list[str], set[object]]:
    """The steps in the manifest's order, the problems, the keys that no leaf asks for, the leaves that were reached."""
    lookup = Lookup((way.source(leaf), leaf) for leaf in model.leaves)
    order = {identity(leaf): i for i, leaf in enumerate(model.leaves)}
    edges: dict[str, list[Edge]] = {}
    problems: list[Problem] = []
    unmatched: list[str] = []
    touched: set[object] = set()
    found_for: dict[str, dict[object, list[Candidate]]] = {}
    fitting: set[str] = set()
    for name, key in sources.items():
        info = tensors[key]
        candidates = [found for leaf, ids in lookup.find(name) for found in _expand(leaf, ids, info, way)]
        fits = [found for found in candidates if _same_rank(way.shape(found.leaf), info.shape)]
        # leaves that several layers of one nn.Sequential have alike (a bias) come to the same thing
        alike: dict[object, list[Candidate]] = {}
        for found in fits or candidates:
            alike.setdefault((found.target, found.leaf.moves, _cuts(found, way)), []).append(found)
        found_for[name] = alike
        fitting |= {name} if fits else set()
    for name, alike in _at_home(found_for).items():
        key = sources[name]
        info = tensors[key]
        touched.update(identity(found.leaf) for group in alike.values() for found in group)
        distinct = {place: group[-1] for place, group in alike.items()}
        if not distinct:
            unmatched.append(key)
        elif len(distinct) > 1 and not all(way.take(found.leaf) for found in distinct.values()):
            listed = {(found.target, found.leaf.moves): found.leaf for found in distinct.values()}
            problems.append(undecided(key, info, listed, fitting=name in fitting))
        else:
            made, wrong = _edges(key, info, list(distinct.values()), way)
            problems += wrong
            for edge in made:
                edges.setdefault(edge.found.target, []).append(edge)
    steps: list[Step] = []
    for target, group in edges.items():
        try:
            steps.append(assembled(target, group, way))
        except Misfit as misfit:
            problems.append(Problem(misfit.code, str(misfit)))
    steps.sort(key=lambda step: order[identity(step.leaf)])
    return tuple(steps), problems, unmatched, touched


def _at_home(found_for: Mapping[str, dict[object, list[Candidate]]]) -> dict[str, dict[object, list[Candidate]]]:
    """What is found for each tensor, of several that beside which the others of its module go: a bias has the rank of
    any other, and belongs to the layer that takes the weight."""
    homes: dict[str, set[str]] = {}
    for name, found in found_for.items():
        if len(found) == 1:
            (group,) = found.values()
            homes.setdefault(_holder(name), set()).add(_holder(group[0].target))
    made: dict[str, dict[object, list[Candidate]]] = {}
    for name, found in found_for.items():
        known = homes.get(_holder(name), set())
        beside = {place: group for place, group in found.items() if _holder(group[0].target) in known}
        made[name] = beside if len(found) > 1 and len(beside) == 1 else found
    return made


def _holder(name: str) -> str:
    """The module that has a tensor: "conv" has "conv.bias", "bn" both "params/bn/scale" and "batch_stats/bn/mean"."""
    return name.partition("/")[2].rpartition("/")[0] if "/" in name else name.rpartition(".")[0]


def _expand(leaf: Leaf, numbers: dict[str, str], info: TensorInfo, way: Direction) -> list[Candidate]:
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
    return [Candidate(leaf, target.fill(ids), ids) for ids in many]


def _cuts(found: Candidate, way: Direction) -> object:
    """The part of a tensor that is taken and the place that it goes to; nothing where whole tensors go to whole ones,
    whether a leaf spells their number out or leaves it open."""
    take, put = way.take(found.leaf), way.put(found.leaf)
    return (take, put, tuple(sorted(found.numbers.items()))) if take or put else ()


def _edges(key: str, info: TensorInfo, chosen: list[Candidate], way: Direction) -> tuple[list[Edge], list[Problem]]:
    """What one tensor gives to the leaves that ask for it."""
    made: list[Edge] = []
    for found in chosen:
        take = way.take(found.leaf)
        try:
            taken = _cut(take, info)
            moves, after = way.convert(found.leaf, found.target, taken)
            index = index_of(take, found.numbers, info.shape)
        except Misfit as misfit:
            return [], [Problem(misfit.code, f"{key} -> {found.target}: {misfit}")]
        added_before = bool(made) and any(isinstance(piece, Add) for piece in take)
        made.append(Edge(found, Source(None if added_before else key, moves, after.shape, index), after.dtype))
    taken = [edge.source.take for edge in made if edge.source.key is not None]
    if any(taken) and not covers(taken, info.shape) and not any(isinstance(p, Add) for p in way.take(chosen[0].leaf)):
        listed = ", ".join(found.target for found in chosen)
        return [], [Problem("WPT108", f"{key} {show(info.shape)}: what {listed} take of it is not all of it, once")]
    return made, []


def _cut(take: tuple[Piece, ...], info: TensorInfo) -> TensorInfo:
    try:
        shape = cut(take, info.shape)
    except ValueError as error:
        raise Misfit("WPT103", str(error)) from None
    return TensorInfo(tuple(length for length in shape or () if length is not None), info.dtype)


def _same_rank(expected: Shape | None, shape: Shape) -> bool:
    return expected is None or len(expected) == len(shape)
