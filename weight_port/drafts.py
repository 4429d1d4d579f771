"""Draft a manifest from a checkpoint alone, for a person to finish: what ``--init-map`` does.

Names and shapes do not tell the class of a layer, and so not the moves of its matrices. What is not known stays
undecided in the draft, and a manifest with anything undecided is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from migrate.layers.moves import Move
from migrate.layers.table import TABLE
from migrate.manifest import Leaf, Manifest, ModelWeights, Unused
from weight_port.regions import TensorInfo

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)")
_RANKS = {
    2: ("Linear",),
    3: ("Conv1d", "ConvTranspose1d"),
    4: ("Conv2d", "ConvTranspose2d"),
    5: ("Conv3d", "ConvTranspose3d"),
}


@dataclass(frozen=True)
class Undecided:
    """Stands where moves belong, and says which there could be."""

    choices: str

    def to_json(self) -> str:
        return f"undecided: {self.choices}"


def draft(tensors: Mapping[str, TensorInfo], name: str, source: str) -> Manifest:
    """A manifest with a leaf for every tensor; numbered keys of one shape and type share a leaf with wildcards."""
    groups: dict[tuple[str, TensorInfo], list[str]] = {}
    for key, info in tensors.items():
        groups.setdefault((_pattern(key), info), []).append(key)
    kinds: dict[str, int] = {}
    for pattern, _ in groups:
        kinds[pattern] = kinds.get(pattern, 0) + 1
    leaves: list[Leaf] = []
    unused: list[Unused] = []
    for (pattern, info), keys in groups.items():
        for torch in [pattern] if kinds[pattern] == 1 else keys:
            if torch.endswith("num_batches_tracked"):
                unused.append(Unused(torch, "Flax counts no batches"))
            else:
                leaves.append(_leaf(torch, info, batch_norm=_beside(keys[0], "running_mean") in tensors))
    return Manifest(source, "linen", (ModelWeights(name, tuple(leaves), tuple(unused)),))


def undecided(manifest: Manifest) -> int:
    """How many leaves a person has still to decide."""
    return sum(isinstance(move, Undecided) for model in manifest.models for leaf in model.leaves for move in leaf.moves)


def _pattern(key: str) -> str:
    """The key with wildcards for its list indices.

    >>> _pattern("h.0.heads.3.weight")
    'h.{0}.heads.{1}.weight'
    """
    parts = _NUMBER.split(key)
    return parts[0] + "".join(f"{{{number}}}{part}" for number, part in enumerate(parts[1:]))


def _beside(key: str, name: str) -> str:
    return ".".join((*key.split(".")[:-1], name))


def _leaf(torch: str, info: TensorInfo, *, batch_norm: bool) -> Leaf:
    *path, last = torch.split(".")
    statistic = {"running_mean": "mean", "running_var": "var"}.get(last) if batch_norm else None
    names = {"weight": "scale" if len(info.shape) == 1 else "kernel"}
    collection = "batch_stats" if statistic else "params"
    flax = "/".join((collection, *_scopes(path), statistic or names.get(last, last)))
    moves: tuple[Move, ...] = ()
    shape = info.shape
    if last == "weight" and len(info.shape) in _RANKS:
        moves, shape = (cast(Move, Undecided(_choices(len(info.shape)))),), None
    return Leaf(flax, torch, moves, shape)


def _scopes(path: list[str]) -> list[str]:
    """The module path as Flax writes it: list indices belong to the name before them."""
    scopes: list[str] = []
    for part in path:
        if scopes and (part.isdecimal() or part.startswith("{")):
            scopes[-1] += f"_{part}"
        else:
            scopes.append(part)
    return scopes


def _choices(rank: int) -> str:
    layers: dict[str, list[str]] = {}
    for name in _RANKS[rank]:
        layers.setdefault(json.dumps(_moves(name)), []).append(f"nn.{name}")
    known = [f"{moves} for {' or '.join(names)}" for moves, names in layers.items()]
    as_is = "[] for nn.Embedding (name the leaf embedding) or transformers' Conv1D" if rank == 2 else ""
    return "; ".join(filter(None, (*known, as_is)))


def _moves(layer: str) -> list[list[str | int]]:
    weight = next(weight for weight in TABLE[f"torch.nn.{layer}"].weights if weight.torch == "weight")
    return [move.to_json() for move in weight.moves]
