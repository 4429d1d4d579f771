"""A plan: which tensors fill which, by which moves. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.layers.moves import Move
from migrate.manifest import Leaf
from weight_port.pieces import Index
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

    Going to Flax, ties are pairs of keys to compare; going back, keys that repeat another. ``copies``: going back,
    steps that must give what the step with the same target does.
    """

    model: str
    steps: tuple[Step, ...]
    dropped: tuple[tuple[str, str], ...] = ()
    ties: tuple[tuple[str, str], ...] = ()
    copies: tuple[Step, ...] = ()
