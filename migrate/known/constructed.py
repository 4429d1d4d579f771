"""What modules are constructed of: layers with their weights, modules of the user's, lists and choices of both."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from migrate.layers.moves import Move


@dataclass(frozen=True)
class BoundWeight:
    """A weight of a constructed layer: torch name, Flax collection and leaf, moves, Flax shape (None where not
    known). `{i}` in both names stands for the number of a copy where their count is not known. `still`: it has no
    gradient, `requires_grad=False`."""

    torch: str
    collection: str
    leaf: str
    moves: tuple[Move, ...]
    shape: tuple[int | None, ...] | None
    optional: bool = False
    still: bool = False


@dataclass(frozen=True)
class Passage:
    """Where a module wants the channels of what it takes, and where it leaves them: "any" (elementwise), "first",
    "last", or "mixed" where that is not one place. `rank` is that of its input, 0 where unknown."""

    entry: str = "first"
    exit: str = "first"
    rank: int = 0

    def joined(self, other: Passage) -> Passage:
        """What is common to both."""
        return Passage(_layout(self.entry, other.entry), _layout(self.exit, other.exit), self.rank or other.rank)


SAME_RANK = tuple(range(7))  # see LayerNode: of an input of up to six axes


@dataclass(frozen=True)
class LayerNode:
    """A constructed torch layer. `returns`: what it gives, as the layer table writes it. `ranks`: how many axes that
    has, by the number of axes of its input; -1 where that is not known. `in_place`: it changes its input."""

    torch: str
    weights: tuple[BoundWeight, ...] = ()
    unused: tuple[tuple[str, str], ...] = ()
    passage: Passage = Passage()
    returns: str = "tensor"
    ranks: tuple[int, ...] = SAME_RANK
    in_place: bool = False

    def rank_after(self, rank: int) -> int:
        """How many axes its output has, of an input of `rank` axes; -1 where either is not known."""
        return self.ranks[rank] if 0 <= rank < len(self.ranks) else -1


@dataclass(frozen=True)
class ClassNode:
    """An instance of a user's module class, whose `forward` takes and returns tensors as torch has them."""

    cls: str

    @property
    def passage(self) -> Passage:
        """As torch has it."""
        return Passage()

    def rank_after(self, rank: int) -> int:
        """Its `forward` tells."""
        return -1


ANY_NAME = re.compile(r"\{(n?)\}")  # in a key of a `named` row: what is told as the program runs
MOVED = ("",)  # the keys of a row that is one layer in torch, with moves of its channels before and after


@dataclass(frozen=True)
class ListNode:
    """Modules by number: a ModuleList ("_") or a Sequential ("/layers_"). `dynamic` where the length is not known: then
    `children` are the possible elements. `keys` where the elements have names in torch: a ModuleDict has them in Flax
    as well, a Sequential of an OrderedDict has not, unless it is `named`: then {} stands for a number in a key, {n} for
    a key that is told as the program runs, and there may be any number of those."""

    children: tuple[Node, ...]
    infix: str
    dynamic: bool = False
    keys: tuple[str, ...] = ()
    passage: Passage = Passage()
    named: bool = False

    def rank_after(self, rank: int) -> int:
        """That of the last of those in a row. Where their number is not known, each must keep it."""
        if self.dynamic:
            return rank if all(child.rank_after(rank) == rank for child in self.children) else -1
        for child in self.children:
            rank = child.rank_after(rank)
        return rank


@dataclass(frozen=True)
class ChoiceNode:
    """One of several modules, or none: which one is told by an argument of the constructor."""

    children: tuple[Node, ...]

    @property
    def passage(self) -> Passage:
        """What is common to all."""
        return passage_of(self.children)

    def rank_after(self, rank: int) -> int:
        """What is common to all."""
        return rank_after(self.children, rank)


Node = LayerNode | ClassNode | ListNode | ChoiceNode


def weights_held(node: Node | None) -> object:
    """The weights of a module by their places and shapes: what two have alike goes from one into the other."""
    if isinstance(node, LayerNode):
        return tuple((weight.torch, weight.shape) for weight in node.weights)
    if not isinstance(node, ListNode | ChoiceNode):
        return node
    keys = node.keys if isinstance(node, ListNode) and node.keys else range(len(node.children))
    held = ((key, weights_held(child)) for key, child in zip(keys, node.children, strict=False))
    return tuple(each for each in held if each[1] != ())


def passage_of(nodes: tuple[Node, ...]) -> Passage:
    """What is common to several modules."""
    passages = [node.passage for node in nodes]
    return functools.reduce(Passage.joined, passages) if passages else Passage("any", "any")


def rank_after(nodes: tuple[Node, ...], rank: int) -> int:
    """How many axes the output of one of several modules has, of an input of `rank` axes; -1 where not known."""
    found = {node.rank_after(rank) for node in nodes}
    return found.pop() if len(found) == 1 else -1


def changes_input(node: Node) -> bool:
    """Whether a module changes its input in place: a layer does, or the first of several in a row."""
    if isinstance(node, ListNode):
        return node.infix.startswith("/") and bool(node.children) and changes_input(node.children[0])
    if isinstance(node, ChoiceNode):
        return any(map(changes_input, node.children))
    return isinstance(node, LayerNode) and node.in_place


def first_layer(node: Node) -> LayerNode:
    """The layer that a module of layers begins with; one without a name where that is not known."""
    while isinstance(node, ListNode) and node.infix.startswith("/") and node.children:
        node = node.children[0]
    return node if isinstance(node, LayerNode) else LayerNode("")


def _layout(one: str, other: str) -> str:
    if one == other or other == "any":
        return one
    return other if one == "any" else "mixed"
