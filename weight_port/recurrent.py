"""Recurrent cells: torch stacks the gates of a cell in one matrix and has two biases. Flax has one bias, and a layer
for each gate or the same stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from flax import linen, nnx

from migrate.layers.moves import Add, Move, Part, Permute, cut, shape_after
from migrate.manifest import Leaf
from weight_port.forms import Slot

CELLS: dict[str, tuple[type, ...]] = {
    "LSTMCell": (linen.LSTMCell, linen.OptimizedLSTMCell, nnx.LSTMCell, nnx.OptimizedLSTMCell),
    "GRUCell": (linen.GRUCell, nnx.GRUCell),
    "SimpleCell": (linen.SimpleCell, nnx.SimpleCell),
}
# In torch's order. The bias of the state is inside the product with the reset gate where the gate is "n".
_GATES = {"LSTMCell": ("i", "f", "g", "o"), "GRUCell": ("r", "z", "n"), "SimpleCell": ("",)}
_TORCH = re.compile(r"(?P<leaf>(?:weight|bias)_[ih]h)(?P<place>_l\d+(?:_reverse)?)?")
_FLAX = re.compile(r"(?P<stacked>dense_)?(?P<side>[ih])(?P<gate>[a-z]?)_?/(?P<leaf>kernel|bias)")


def torch_leaf(name: str) -> tuple[str, str] | None:
    """The last part of a torch key as the layer and direction that it belongs to and the tensor's name there.

    >>> torch_leaf("weight_ih_l1_reverse")
    ('l1_reverse', 'weight_ih')
    >>> torch_leaf("bias_hh")                       # of a cell
    ('', 'bias_hh')
    """
    found = _TORCH.fullmatch(name)
    return ((found["place"] or "").removeprefix("_"), found["leaf"]) if found else None


def cell_leaves(slot: Slot, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[Leaf]:
    """What fills the leaves of a Flax cell from a torch cell's tensors, which are given as key and shape by `weight_ih`
    and so on; empty where the two do not fit each other."""
    made: list[Leaf] = []
    used: set[str] = set()
    both = slot.kind.name == "GRUCell" and "dense_h/bias" in slot.leaves
    for leaf, shape in slot.leaves.items():
        found = list(_filling(slot.kind.name, leaf, both))
        for name, take in found:
            key, whole = tensors.get(name, ("", ()))
            moves: tuple[Move, ...] = (Permute((1, 0)),) if leaf.endswith("kernel") else ()
            if not key or not _fits(take, moves, whole, shape):
                return []
            put = (Add(),) if len(found) > 1 else ()
            made.append(Leaf(slot.name(leaf), key, moves, shape, torch_shape=whole, take=take, put=put))
            used.add(name)
        if not found:
            return []
    return made if used == set(tensors) else []


def advice(slot: Slot) -> str:
    """Why a cell cannot be filled, where its kind alone tells."""
    if slot.kind.name == "GRUCell" and any(leaf.startswith("dense_") for leaf in slot.leaves):
        return (
            "nnx.GRUCell has no bias inside the product with the reset gate: torch and linen have. Give it one: "
            "cell.dense_h = nnx.Linear(hidden, 3 * hidden, rngs=rngs)."
        )
    return ""


def _fits(take: tuple[Part, ...], moves: tuple[Move, ...], whole: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return shape_after(moves, cut(take, whole) or ()) == shape
    except ValueError:
        return False


def _filling(cell: str, leaf: str, both: bool) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """The tensors of torch that a leaf is the sum of, with the part of each. both: the cell's stack has both biases,
    which Flax's own has not."""
    gates, named = _GATES[cell], _FLAX.fullmatch(leaf)
    if named is None or (not named["stacked"] and named["gate"] not in gates):
        return
    whole = bool(named["stacked"]) or gates == ("",)
    take = () if whole else (Part(0, gates.index(named["gate"]), len(gates)),)
    if named["leaf"] == "kernel":
        yield f"weight_{named['side']}h", take
    elif cell != "GRUCell":
        yield from (("bias_ih", take), ("bias_hh", take))
    elif named["gate"] == "n" or both:
        yield f"bias_{named['side']}h", take
    elif not whole:  # in a stack the bias of the state's product has no place
        yield from (("bias_ih", take), ("bias_hh", take))
