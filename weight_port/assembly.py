"""Put the pieces that fill one target together, and see that they fill all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from migrate.layers.moves import Add, show
from migrate.manifest import Leaf
from weight_port.direction import Direction
from weight_port.dtypes import is_float
from weight_port.errors import Misfit
from weight_port.pieces import covers, index_of, whole_shape
from weight_port.plan import Source, Step
from weight_port.regions import TensorInfo


@dataclass(frozen=True)
class Candidate:
    """A leaf that a key matches, with the numbers of the wildcards."""

    leaf: Leaf
    target: str
    numbers: Mapping[str, str]


@dataclass(frozen=True)
class Edge:
    """A candidate that was chosen and fits: what its source gives, and the type that it gets."""

    found: Candidate
    source: Source
    dtype: np.dtype


def assembled(target: str, group: list[Edge], way: Direction) -> Step:
    """The step that puts the pieces of one target together."""
    puts = [way.put(edge.found.leaf) for edge in group]
    leaf, first = group[0].found.leaf, group[0].source
    added = any(isinstance(piece, Add) for put in puts for piece in put)
    if len(group) > 1 and not all(puts):
        raise Misfit("WPT104", f"{group[1].source.key} and {first.key} would both fill {target}")
    dtypes = {edge.dtype for edge in group}
    if len(dtypes) > 1:
        listed = ", ".join(sorted(map(str, dtypes)))
        raise Misfit("WPT103", f"{target} is put together of tensors of different types: {listed}")
    affines = {way.affine(edge.found.leaf) for edge in group}
    if len(affines) > 1:
        raise Misfit("WPT103", f"{target} is put together of tensors with different scales or shifts")
    affine = None if affines == {(1.0, 0.0)} else affines.pop()
    if affine and not is_float(group[0].dtype):
        raise Misfit("WPT103", f"{target} has a scale or a shift, but the type {group[0].dtype}")
    if not puts[0]:
        return Step(target, (first,), TensorInfo(first.shape, group[0].dtype), leaf, affine=affine)
    try:
        shape = whole_shape(first.shape, puts, [edge.found.numbers for edge in group], way.whole_shape(leaf))
    except ValueError as error:
        raise Misfit("WPT103", f"{target}: {error}") from None
    if shape is None:
        raise Misfit("WPT107", f'{target}: the pieces do not tell its shape; state it as "shape" or "torch_shape"')
    made = []
    for edge, put in zip(group, puts, strict=True):
        index = index_of(put, edge.found.numbers, shape)
        room = tuple(s.stop - s.start for s in index if isinstance(s, slice))
        if index and room != edge.source.shape:
            raise Misfit("WPT103", f"{edge.source.key} -> {target}: {show(edge.source.shape)} is to fill {show(room)}")
        made.append(replace(edge.source, put=index))
    distinct = list({str(source.put): source.put for source in made}.values()) if added else [s.put for s in made]
    if not covers(distinct, shape):
        listed = ", ".join(str(source.key) for source in made[:6])
        raise Misfit("WPT108", f"{target} {show(shape)}: {listed} do not fill all of it, each place once")
    return Step(target, tuple(made), TensorInfo(shape, group[0].dtype), leaf, added, affine)
