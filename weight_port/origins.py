"""What a checkpoint has: its tensors by the torch modules that they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property

from migrate.layers.moves import Part, Shape
from weight_port.forms import ALONE, DIRECTION, LENGTH, TORCH_LEAVES
from weight_port.recurrent import torch_leaf

# what people call the same thing; the rest of a name has to be equal
_SAME = {
    "q": "query", "k": "key", "v": "value", "o": "out", "output": "out", "attention": "attn", "ln": "norm",
    "layernorm": "norm", "bn": "batchnorm", "embedding": "embed", "embeddings": "embed", "blocks": "block",
    "layers": "layer",
}  # fmt: skip
_EMPTY = {"proj", "projection"}  # words that add nothing
# what linen calls a layer without a name of its own; it counts from 0, people often from 1: such names prove nothing
_AUTOMATIC = re.compile(r"[A-Z][A-Za-z]*_\d+")
# what torch.nn.MultiheadAttention holds in one tensor, or, where their widths differ, in three
_PROJECTIONS = {"q": "query", "k": "key", "v": "value"}


@dataclass(frozen=True)
class Ref:
    """A torch tensor, or the piece of one that a layer of its own would hold."""

    key: str
    shape: tuple[int, ...]
    take: tuple[Part, ...] = ()

    @property
    def whole(self) -> Shape:
        """The shape of the tensor that it is a piece of."""
        shape: Shape = self.shape
        for part in reversed(self.take):
            shape = part.whole(shape)
        return shape


@dataclass(frozen=True)
class Origin:
    """A torch module: the tensors under one prefix. ``layer``: its class, "" where nobody said. ``parts``: what torch
    keeps in place of its weight (weight_norm), which is also there as if it were folded."""

    prefix: str
    tensors: Mapping[str, Ref]
    layer: str = ""
    parts: Mapping[str, Ref] = field(default_factory=dict)

    def kept_apart(self) -> Origin:
        """With the parts in place of the weight; itself where there are none."""
        if not self.parts:
            return self
        return replace(self, tensors={k: ref for k, ref in self.tensors.items() if k != "weight"} | {**self.parts})

    @property
    def signature(self) -> object:
        """What equal layers have in common."""
        return tuple(sorted((name, ref.shape) for name, ref in self.tensors.items()))

    @cached_property
    def words(self) -> tuple[str, ...]:
        return words(self.prefix)


def origins_of(
    shapes: Mapping[str, tuple[int, ...]],
    layers: Mapping[str, str],
    parts: Mapping[str, Mapping[str, tuple[int, ...]]],
) -> dict[str, Origin]:
    """The modules of a checkpoint. layers: their classes, by patterns of their names. parts: what folded weights are
    made of, direction and length, by their names."""
    groups: dict[str, dict[str, Ref]] = {}
    projections: set[str] = set()
    for key, shape in shapes.items():
        prefix, _, last = key.rpartition(".")
        packed, single = re.fullmatch(r"in_proj_(weight|bias)", last), re.fullmatch(r"([qkv])_proj_weight", last)
        if packed and shape and shape[0] % 3 == 0:
            for i, part in enumerate(_PROJECTIONS.values()):
                ref = Ref(key, (shape[0] // 3, *shape[1:]), (Part(0, i, 3),))
                groups.setdefault(_joined(prefix, part), {})[packed[1]] = ref
                projections.add(_joined(prefix, part))
        elif single:
            inner = _joined(prefix, _PROJECTIONS[single[1]])
            groups.setdefault(inner, {})["weight"] = Ref(key, shape)
            projections.add(inner)
        elif cell := torch_leaf(last):
            groups.setdefault(_joined(prefix, cell[0]), {})[cell[1]] = Ref(key, shape)
        elif last in TORCH_LEAVES:
            groups.setdefault(prefix, {})[last] = Ref(key, shape)
        else:
            groups.setdefault(key, {})[ALONE] = Ref(key, shape)
    found: dict[str, Origin] = {}
    for prefix, refs in groups.items():
        told = next((layer for pattern, layer in layers.items() if fnmatchcase(prefix, pattern)), "")
        stored = [Ref(key, shape) for key, shape in parts.get(_joined(prefix, "weight"), {}).items()]
        apart: dict[str, Ref] = dict(zip((DIRECTION, LENGTH), stored, strict=True)) if len(stored) == 2 else {}
        found[prefix] = Origin(prefix, refs, "Linear" if prefix in projections else told, apart)
    return found


def _joined(*parts: str) -> str:
    return ".".join(filter(None, parts))


def words(name: str) -> tuple[str, ...]:
    """A path as words that can be compared across the frameworks.

    >>> words("h.0.attn.q_proj") == words("h_0/attention/query")
    True
    """
    split: list[str] = []
    for part in re.split(r"[./]", name):
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)", "_", part)
        split += [part] if _AUTOMATIC.fullmatch(part) else [word.lower() for word in spaced.split("_") if word]
    return tuple(_SAME.get(word, word) for word in split if word not in _EMPTY) or tuple(split)
