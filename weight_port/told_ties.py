"""Ties that an argument of the constructor makes or leaves out: the tensors that are there say which."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from migrate.manifest import ModelWeights, Tie
from weight_port.names import Lookup, Pattern
from weight_port.views import same_bits


def as_tied(model: ModelWeights, keys: Collection[str], read: Callable[[str], np.ndarray]) -> ModelWeights:
    """The model as a checkpoint has it: of optional ties, those whose keys hold the same bits are ties, and those of
    which only one key is there; the others are none, and their keys fill leaves of their own."""

    def is_tied(tie: Tie) -> bool:
        lookup = Lookup([(tie.torch, tie)])
        found = [(key, Pattern(tie.same_as).fill(numbers)) for key in keys for _, numbers in lookup.find(key)]
        return all(source not in keys or _same(read(key), read(source)) for key, source in found)

    return _told(model, is_tied)


def as_kept(model: ModelWeights, leaves: Collection[str]) -> ModelWeights:
    """The model as its Flax weights are: what has a leaf of its own is not tied."""

    def is_tied(tie: Tie) -> bool:
        own = Lookup((leaf.flax, leaf) for leaf in model.leaves if leaf.torch == tie.torch)
        return not any(any(own.find(name)) for name in leaves)

    return _told(model, is_tied)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and same_bits(one, other)


def _told(model: ModelWeights, is_tied: Callable[[Tie], bool]) -> ModelWeights:
    """The model with nothing left open."""
    tied = {tie.torch for tie in model.ties if tie.optional and is_tied(tie)}
    ties = tuple(replace(tie, optional=False) for tie in model.ties if not tie.optional or tie.torch in tied)
    return replace(model, leaves=tuple(leaf for leaf in model.leaves if leaf.torch not in tied), ties=ties)
