"""Kinds of what belongs to a model or an optimizer as a whole: weights, parameters, groups of them, state dicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from migrate.known.kinds import UNKNOWN, Kind, Place, Plain, Tensor

LISTING = ("parameters", "named_parameters")  # the methods that give all parameters of a module
CHECKPOINT = Plain("checkpoint")  # what a file of the script's own holds


@dataclass(frozen=True)
class OptimizerGroups(Kind):
    """`optimizer.param_groups`, or one of them (`one`): that of this `number`, or (None) any, where all are alike."""

    optimizer: Place
    one: bool = False
    number: int | None = None


@dataclass(frozen=True)
class OwnOptimizer(Kind):
    """An optimizer class of the user's own."""

    cls: str


@dataclass(frozen=True)
class OwnScheduler(Kind):
    """A scheduler class of the user's own."""

    cls: str


@dataclass(frozen=True)
class Parameters(Kind):
    """`model.parameters()` and the like: `named` for pairs of name and weight."""

    models: tuple[Place, ...]
    named: bool = False

    def covering(self, other: Kind) -> Kind:
        return other.covering(self) if isinstance(other, Selection) else UNKNOWN


@dataclass(frozen=True)
class Selection(Kind):
    """Some of the parameters of models: for each model the Flax paths of the leaves, sorted. `label`: what they are
    called; `by_rank`: they were told by their numbers of axes; `named`: it is a dict of them by name; `unless_frozen`:
    of these, those that are not frozen as the line runs; `whole`: these are all that the models have."""

    leaves: tuple[tuple[Place, tuple[str, ...]], ...]
    label: str = ""
    by_rank: bool = False
    named: bool = False
    unless_frozen: bool = False
    whole: bool = False

    @property
    def has_tensors(self) -> bool:
        """Whether tensors made with requires_grad=True are among them, each the one leaf "" of its place."""
        return any(paths == ("",) for _, paths in self.leaves)

    def covering(self, other: Kind) -> Kind:
        """All weights of a model where nothing of it is frozen, or those of them that are not."""
        models = tuple(place for place, _ in self.leaves)
        both = self.whole and self.unless_frozen and isinstance(other, Parameters) and not other.named
        return self if both and isinstance(other, Parameters) and other.models == models else UNKNOWN


@dataclass(frozen=True)
class Names(Kind):
    """A set of names of weights of a model, as torch calls them."""

    place: Place
    names: tuple[str, ...]


@dataclass(frozen=True)
class Group(Kind):
    """A parameter group: a selection, and the arguments of the optimizer that are its own, as they are written."""

    selection: Selection
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Weight(Kind):
    """One weight of a model, taken from its parameters. `axes`: whether they are in torch's order. Of a certain one
    `place` and `leaf` say which: a name for it is read anew, as in torch it changes with the model. `live`: it is no
    copy, so that the next step gives its memory away."""

    axes: bool = False
    place: Place | None = None
    leaf: str = ""
    live: bool = False

    def covering(self, other: Kind) -> Kind:
        if isinstance(other, Tensor) and self.axes:
            return Tensor(other.dtype if other.dtype == "float" else "", origins=other.origins)
        if not isinstance(other, Weight):
            return super().covering(other)
        return Weight(axes=self.axes and other.axes, live=self.live or other.live)


@dataclass(frozen=True)
class WeightsOfPart(Kind):
    """The weights of one layer of a list, as the tree that they are in Flax: the class and the place of the model, and
    what the names of these weights begin with in torch and in Flax, {0} for the number of the layer."""

    cls: str
    place: Place
    torch: str
    flax: str


@dataclass(frozen=True)
class WeightTree(Kind):
    """Values for all weights of a class of models, by name: in JAX a tree like the weights. `what`: which they are
    like; `listed`: torch has them in a row, without their names; `place`: the model whose own they are."""

    cls: str
    what: str
    listed: bool = False
    place: Place | None = None

    def covering(self, other: Kind) -> Kind:
        if not isinstance(other, WeightTree) or replace(self, place=other.place) != other:
            return UNKNOWN
        return replace(self, place=self.place or other.place)


WEIGHT_NAME = Plain("name of a weight")  # as Flax has it: scripts may show it, and no test of theirs knows it
# what may be done with one to show it
SHOWN = ("replace", "removeprefix", "removesuffix", "strip", "lower", "upper", "title", "ljust", "rjust", "center")


@dataclass(frozen=True)
class AnyWeight(Kind):
    """Some weight of a model, which is asked for its type and its device alone: it disappears."""


@dataclass(frozen=True)
class StateDict(Kind):
    """`x.state_dict()` of a model or an optimizer; of one of several, a place that is none of theirs. `live`: its
    tensors are those that training changes."""

    place: Place
    live: bool = True

    def covering(self, other: Kind) -> Kind:
        if not isinstance(other, StateDict):
            return super().covering(other)
        return StateDict(self.place if other.place == self.place else Place("", ""), self.live or other.live)
