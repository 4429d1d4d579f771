"""Layers whose weights are stacked along an axis, as nn.scan and nn.vmap keep them: taken apart to be matched one by
one, and put together again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from migrate.layers.moves import Piece, Stack
from migrate.manifest import Leaf
from weight_port.errors import Misfit
from weight_port.forms import Place, Slot

Shapes = Mapping[str, tuple[int, ...]]


def taken_apart(slot: Slot, inside: Shapes, roots: Collection[str]) -> list[Slot]:
    """A slot for each layer of a stack, the slot itself where it is none. ``inside``: the shapes of its leaves as one
    of the layers has them; ``roots``: the paths of what was stacked.

    Raises Misfit WPT109 where the shapes do not tell the axis.
    """
    axes = {leaf: list(_axes(shape, inside.get(leaf, shape))) for leaf, shape in slot.leaves.items()}
    if not any(axes.values()):
        return [slot]
    common = [axis for axis in next(iter(axes.values())) if all(axis in found for found in axes.values())]
    lengths = {slot.leaves[leaf][axis] for leaf in slot.leaves for axis in common}
    if len(common) != 1 or len(lengths) != 1:
        listed = " or ".join(map(str, common)) or "no one axis"
        raise Misfit("WPT109", f"{slot.path} is stacked, and its shapes say along {listed}")
    root = max((r for r in roots if f"{slot.path}/".startswith(f"{r}/" if r else "")), key=len, default="")
    rest = slot.path.removeprefix(root).removeprefix("/")
    leaves = {leaf: inside[leaf] for leaf in slot.leaves}
    return [
        replace(slot, path="/".join(filter(None, (root, str(i), rest))), leaves=leaves,
                place=Place(slot.path, common[0], i))
        for i in range(lengths.pop())
    ]  # fmt: skip


def _axes(whole: tuple[int, ...], layer: tuple[int, ...]) -> Iterator[int]:
    if len(whole) == len(layer) + 1:
        yield from (axis for axis in range(len(whole)) if whole[:axis] + whole[axis + 1 :] == layer)


def put_together(layers: Sequence[tuple[Slot, list[Leaf]]]) -> list[Leaf]:
    """The leaves of a stack, from those of each of its layers, in their order.

    Raises Misfit WPT109 where the torch modules are not a list.
    """
    first, _ = layers[0]
    assert first.place is not None
    axis, length = first.place.axis, len(layers)
    made: list[Leaf] = []
    for leaves in zip(*(leaves for _, leaves in layers), strict=True):
        torch = _pattern([leaf.torch for leaf in leaves])
        if torch is None or len({(leaf.moves, leaf.take, leaf.put) for leaf in leaves}) > 1:
            raise Misfit("WPT109", f"{leaves[0].flax} is a stack of {length} layers, and {leaves[0].torch} to "
                                   f"{leaves[-1].torch} are not a list of as many")  # fmt: skip
        shape = leaves[0].shape or ()
        put: tuple[Piece, ...] = (Stack(axis, "0"), *leaves[0].put)
        made.append(replace(leaves[0], torch=torch, put=put, shape=(*shape[:axis], length, *shape[axis:])))
    return made


def _pattern(names: Sequence[str]) -> str | None:
    """Names that count from 0 in one of their parts, with a wildcard there.

    >>> _pattern(["h.0.fc.weight", "h.1.fc.weight"])
    'h.{0}.fc.weight'
    """
    first = names[0].split(".")
    for i in range(len(first)):
        pattern = ".".join([*first[:i], "{0}", *first[i + 1 :]])
        if all(pattern.replace("{0}", str(number)) == name for number, name in enumerate(names)):
            return pattern
    return None
