"""What is known of a value: the lattice that the lowering carries beside each expression.

`UNKNOWN` is the top: nothing may be assumed, and nothing rooted in it is rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeGuard

from migrate.apis import public_name
from migrate.known.constructed import Node, passage_of
from migrate.known.qualified import either


@dataclass(frozen=True)
class Kind:
    """A value of which nothing is known, and the base of the others."""

    def covering(self, other: Kind) -> Kind:
        """The least kind that covers this one and another one of its own sort; UNKNOWN where there is none."""
        return UNKNOWN


UNKNOWN = Kind()


@dataclass(frozen=True)
class Never(Kind):
    """No value yet: the bottom, for parameters that no call has bound."""


@dataclass(frozen=True)
class Unreached(Never):
    """What follows from a model that another package makes: an exception stands before it."""


SOME_AXES = -2


@dataclass(frozen=True)
class Tensor(Kind):
    """A torch tensor that becomes a jax array. `dtype` is "float", "int", "bool" or ""; `rank` -1 where unknown, and
    SOME_AXES where it is at least one.

    `origins` are the places (node identities) that made it: where it turns out to feed torch's data loading, they stay
    torch. `length` is an axis, and its length as the constructor of a layer writes it.
    """

    dtype: str = ""
    rank: int = -1
    optional: bool = False
    origins: frozenset[int] = frozenset()
    length: tuple[int, str] | None = field(default=None, kw_only=True)

    @property
    def has_axes(self) -> bool:
        """Whether it is known to be no scalar."""
        return self.rank > 0 or self.rank == SOME_AXES


@dataclass(frozen=True)
class Unpassed(Tensor):
    """What a forward pass may be given, is None unless it is, and no call gives: code for it is that for a tensor."""


@dataclass(frozen=True)
class Host(Kind):
    """What stays torch or foreign: data sets, loaders, transforms, batches of a loader (`tensor`)."""

    # "data", "loader", "stream" (of batches, by a generator), "tensor", "batch", "transform", "reshaping", "metric",
    # "graphs", "graph"
    what: str = "data"
    origins: frozenset[int] = frozenset()  # the nodes that bound a batch
    dtype: str = ""  # of a tensor, as that of `Tensor`
    optional: bool = False  # may be None instead of a tensor

    def covering(self, other: Kind) -> Kind:
        for what in ("graph", "loader of graphs"):
            mixed = what.replace("graph", "mixed graph")
            if isinstance(other, Host) and {self.what, other.what} <= {what, mixed}:
                return Host(self.what if self.what == other.what else mixed, self.origins | other.origins)
        return super().covering(other)


def is_batch(kind: Kind) -> TypeGuard[Host]:
    """Whether a kind is that of tensors of the data loading, which enter JAX where it first works on them."""
    return isinstance(kind, Host) and kind.what in ("tensor", "batch")


@dataclass(frozen=True)
class Packed(Kind):
    """A packed sequence: a pair of the padded array, time first, and the lengths."""


@dataclass(frozen=True)
class PackedElements(Kind):
    """What a packed sequence holds, in torch one element after another: the same pair as the sequence."""


@dataclass(frozen=True)
class Number(Kind):
    """A Python or numpy number or boolean."""


@dataclass(frozen=True)
class ModeFlag(Number):
    """Whether a model was in train mode when that was asked: "train" or "eval", or "mixed" where each run of the line
    tells. `untouched`: it was as the callers of the function had left it."""

    mode: str = ""
    untouched: bool = False


@dataclass(frozen=True)
class Plain(Kind):
    """Any other plain Python value: a string, None, a dict of settings, a namespace."""

    what: str = ""


ITERATOR = "iterator"  # the type of what gives each element once
BY_WEIGHT = "dict by weight"  # the type of dicts whose keys are the names that weights have in Flax
SIZES = Plain("a number, or one for each axis")  # as layers take their kernel sizes
SHAPE = "shape"  # the type of shapes of tensors, which become tuples


@dataclass(frozen=True)
class Items(Kind):
    """A list or tuple, or what can be iterated once (type ITERATOR): `items` where each element is known, else one
    `element` for all. `first`: those that a tuple of unknown length surely begins with."""

    items: tuple[Kind, ...] | None = None
    element: Kind = UNKNOWN
    type: str = "list"
    first: tuple[Kind, ...] = field(default=(), kw_only=True)

    def joined(self) -> Kind:
        """One kind for whatever element is taken; Never of an empty list."""
        if self.items is None:
            return self.element
        kind: Kind = Never()
        for item in self.items:
            kind = join(kind, item)
        return kind


@dataclass(frozen=True)
class Members(Items):
    """A list, a tuple or a dict of models, optimizers and schedulers that have names. `names`: these, as they are
    written where it was made; `keys`: those of a dict, as they are written."""

    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shorthand(Kind):
    """A lambda that calls a method with whatever it is given: `reshape = lambda x, *args: x.reshape(*args)`."""

    written: str


@dataclass(frozen=True)
class TorchName(Kind):
    """A function, class or module of torch, by its public name."""

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", public_name(self.name))


@dataclass(frozen=True)
class ProjectModule(Kind):
    """A file or a package of the same project, by its module scope."""

    scope: str


@dataclass(frozen=True)
class DType(Kind):
    """A torch dtype."""


@dataclass(frozen=True)
class Device(Kind):
    """A device, or a string that names one: it disappears."""


@dataclass(frozen=True)
class Autocast(Kind):
    """A context that sets the precision of layers: its value is their dtype, or None. `off`: it switches one off."""

    off: bool = False


@dataclass(frozen=True)
class Scaler(Kind):
    """A gradient scaler: it disappears. `optional`: it may also be None."""

    optional: bool = False


@dataclass(frozen=True)
class Accelerator(Kind):
    """An `accelerate.Accelerator`: it disappears, and what it is asked for is said in JAX."""


@dataclass(frozen=True)
class RunningOptions(Kind):
    """A dict of arguments that tell torch how to run an optimizer: it disappears."""


VANISHING = (Device, Scaler, Accelerator, RunningOptions)  # kinds of arguments that are left out


@dataclass(frozen=True, order=True)
class Place:
    """Where an object with state lives: a variable `name` of the function `scope` ("" for the module), or an attribute
    of `self` in class `scope` (name "self.x")."""

    scope: str
    name: str

    @property
    def of_self(self) -> bool:
        """Whether it is an attribute, of which every method can reach the state."""
        return self.name.startswith("self.")

    @property
    def short(self) -> str:
        """The name without `self.`, as a step function calls it."""
        return self.name.removeprefix("self.")


@dataclass(frozen=True)
class Leaf(Tensor):
    """A tensor made with `requires_grad=True`: a parameter without a model."""

    place: Place = Place("", "")

    @property
    def plain(self) -> Tensor:
        """The same as any other tensor, as another name for it sees it."""
        return Tensor(self.dtype, self.rank, self.optional, self.origins)


@dataclass(frozen=True)
class Model(Kind):
    """An instance of module class `cls` (a user class, or "Sequential", or one of several: see `qualified.either`);
    `place` None inside another module, and before it is assigned. Until then: `copied`, the model whose weights it
    starts with; `mode`, "eval" where it was called."""

    cls: str
    place: Place | None = None
    copied: Place | None = None
    mode: str = ""

    def covering(self, other: Kind) -> Kind:
        if isinstance(other, Model) and other.cls == self.cls and None in (self.place, other.place):
            return UNKNOWN
        fresh = Model("", None, None, self.mode)
        if isinstance(other, Model) and replace(self, cls="") == replace(other, cls="") == fresh:
            return self.or_of(other)
        return OneOfModels() if isinstance(other, Model | OneOfModels) else UNKNOWN

    def or_of(self, other: Model) -> Model:
        """The same model where it may have the class of another one."""
        return replace(self, cls=either(self.cls, other.cls))


@dataclass(frozen=True)
class OneOfModels(Kind):
    """One of several models: whose weights it has is told as the script runs."""

    def covering(self, other: Kind) -> Kind:
        return self if isinstance(other, Model) else UNKNOWN


@dataclass(frozen=True)
class ModuleClass(Kind):
    """A user's nn.Module class."""

    cls: str


@dataclass(frozen=True)
class Module(Kind):
    """A module inside another one, as one of `options`."""

    options: tuple[Node, ...]

    @property
    def entry(self) -> str:
        """Where it wants the channels; see `Passage`."""
        return passage_of(self.options).entry

    @property
    def exit(self) -> str:
        """Where it leaves them."""
        return passage_of(self.options).exit

    @property
    def rank(self) -> int:
        """The rank of its input, 0 where unknown."""
        return passage_of(self.options).rank


@dataclass(frozen=True)
class LayerSubclass(Kind):
    """A user's class that inherits from a layer, as one of `Makers`: what makes it takes torch's arguments."""

    cls: str


@dataclass(frozen=True)
class Makers(Kind):
    """What makes a module when it is called, given as a value: one of several torch layers (a `TorchName`), classes
    that inherit from one (a `LayerSubclass`), and module classes (a `ModuleClass`) and functions of the user's."""

    options: tuple[Kind, ...]


@dataclass(frozen=True)
class Operation(Kind):
    """A function of torch given as a value, in the output one of JAX: one of several, by their qualified names."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Einops(Kind):
    """A function or a layer of einops, by name: it takes jax arrays as they are."""

    name: str


@dataclass(frozen=True)
class Tied(Kind):
    """A dense layer whose weight is the table of an embedding, as that is written: `self.wte`, `self.parts["wte"]`; or
    that of another dense layer, `source`. `bias`: the attribute that has its own, "" without one. `layer`: what it is
    where it is not tied, `written`. `told`: the field of its class that says whether it is, "" where it always is."""

    embedding: str
    source: str = ""
    bias: str = ""
    layer: Kind = Kind()
    written: str = ""
    told: str = ""


@dataclass(frozen=True)
class HostClass(Kind):
    """A class of the user's own that is no module: a trainer, mostly."""

    cls: str


@dataclass(frozen=True)
class Instance(Kind):
    """An object of such a class."""

    cls: str


@dataclass(frozen=True)
class OneOfObjects(Kind):
    """An object of one of several such classes, told as the script runs."""

    classes: tuple[str, ...]


@dataclass(frozen=True)
class Function(Kind):
    """A user's function or method (methods as "Class.method")."""

    name: str


@dataclass(frozen=True)
class Transformed(Kind):
    """A function made of another one (`jax.grad(f)`): the user's function in it, "" for a lambda, and what a call
    gives. `mapped`: the axes of its arguments that maps over it take away, outermost last: a number, one for each
    argument, or ... where they are not known."""

    function: str
    result: Kind = UNKNOWN
    mapped: tuple[object, ...] = ()


@dataclass(frozen=True)
class LikeArgument(Kind):
    """What has the form of an argument of a call: a gradient by it."""

    number: int


@dataclass(frozen=True)
class AutogradFunction(Kind):
    """A user's subclass of `torch.autograd.Function`."""

    cls: str


@dataclass(frozen=True)
class Optimizer(Kind):
    """A torch optimizer of `models`; `place` is ("", "") until it is assigned."""

    place: Place
    models: tuple[Place, ...] = ()


@dataclass(frozen=True)
class OptimizerClasses(Kind):
    """Classes of torch.optim to choose from: a dict `by_key`, or what a name is defined by."""

    by_key: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Scheduler(Kind):
    """A torch learning-rate scheduler; `place` is ("", "") until it is assigned. `starts`: it sets a rate of its own as
    soon as it is made. `scales`: it only multiplies the rate. `cycles`: the hyperparameter that it changes beside it.
    `plateau`: it follows a metric. `follows`: it goes on from whatever rate there is. `mixed`: it is one of several
    that are not stepped alike. `own`: it is of a class of the script's own, an object. `closed`: its rates go by the
    number of steps alone, whatever the rate is."""

    place: Place
    optimizer: Place
    starts: bool = False
    scales: bool = False
    cycles: str = ""
    plateau: bool = False
    follows: bool = False
    mixed: bool = False
    own: bool = False
    closed: bool = False

    @property
    def is_object(self) -> bool:
        """Whether it is an object that counts for itself, and no function of the number of steps."""
        return self.plateau or self.own

    def covering(self, other: Kind) -> Kind:
        """Schedules that a script chooses from are stepped alike where they are functions of one count."""
        if not isinstance(other, Scheduler) or (self.place, self.optimizer) != (other.place, other.optimizer):
            return UNKNOWN
        starts, scales, closed = self.starts or other.starts, self.scales and other.scales, self.closed and other.closed
        either = replace(self, starts=starts, scales=scales, closed=closed)
        alike = replace(other, starts=starts, scales=scales, closed=closed) == either
        return either if alike else replace(either, mixed=True)


@dataclass(frozen=True)
class Loss(Kind):
    """A torch loss module: a function in the output. `takes`: what torch calls the tensors that it is called with;
    `reduced`: whether it gives one number; `ignored`: the label that it leaves out, None where it has none or that is
    not known; `function`: torch's function for it, and `options` what that is given beside the tensors, as it is
    written, None where that is not all literal."""

    takes: tuple[str, ...] = ("input", "target")
    reduced: bool = True
    ignored: int | None = None
    function: str = ""
    options: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class SelfModule(Kind):
    """`self` inside a module class."""

    cls: str


@dataclass(frozen=True)
class Distribution(Kind):
    """A distribution of torch.distributions; `discrete` ones have no gradient through their samples. One of several
    classes, chosen as the script runs, has none of its own, and is `discrete` where any of them is."""

    cls: str
    discrete: bool = False


def join(a: Kind, b: Kind) -> Kind:
    """The least kind that covers both; UNKNOWN where they have nothing in common."""
    for bottom in (Never, Unreached):
        if a == b or type(b) is bottom:
            return a
        if type(a) is bottom:
            return b
    if isinstance(a, ModeFlag) or isinstance(b, ModeFlag):
        return join(*(Number() if isinstance(one, ModeFlag) else one for one in (a, b)))
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Unpassed) and isinstance(other, Number):
            return other
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return Tensor(
            a.dtype if a.dtype == b.dtype else "",
            a.rank if a.rank == b.rank else SOME_AXES if a.has_axes and b.has_axes else -1,
            a.optional or b.optional,
            a.origins | b.origins,
            length=a.length if a.length == b.length else None,
        )
    for one, other in ((a, b), (b, a)):
        if one == Plain("None") and (isinstance(other, Tensor | Scaler) or is_batch(other)):
            return replace(other, optional=True)
        if (
            isinstance(one, Plain)
            and one.what == "None"
            and isinstance(
                other,
                Module | Makers | ModuleClass | Operation | Model | Optimizer | Scheduler | Instance | OneOfObjects,
            )
        ):
            return other
        if isinstance(one, Plain) and one.what == "None" and isinstance(other, Host) and other.what == "loader":
            return other
        if isinstance(one, Plain) and one.what == "None" and isinstance(other, Items):
            return other  # a state that starts as None
        if one == Plain("dict") and isinstance(other, Items) and other.type == BY_WEIGHT:
            return other  # it starts empty
        if isinstance(one, Number) and (other == SIZES or (isinstance(other, Items) and other.joined() == Number())):
            return SIZES
        if one == SIZES and isinstance(other, Items) and other.joined() == Number():
            return SIZES
        if isinstance(one, Number) and isinstance(other, Tensor):
            return replace(other, rank=-1 if other.rank else 0, length=None)  # a running sum that starts at 0
    if isinstance(a, Loss) and isinstance(b, Loss) and a.reduced == b.reduced and a.takes == b.takes:
        return replace(a, ignored=None)  # chosen as the script runs
    if isinstance(a, Distribution) and isinstance(b, Distribution):
        return Distribution("", a.discrete or b.discrete)
    if isinstance(a, Scaler) and isinstance(b, Scaler):
        return Scaler(a.optional or b.optional)
    if isinstance(a, Host) and isinstance(b, Host) and (a.what == b.what or (is_batch(a) and is_batch(b))):
        return Host(a.what if a.what == b.what else "tensor", a.origins | b.origins, optional=a.optional or b.optional)
    if isinstance(a, Items) and isinstance(b, Items):
        if a.items is not None and b.items is not None and len(a.items) == len(b.items):
            return Items(tuple(map(join, a.items, b.items)), type=a.type)
        first = zip(a.items or a.first, b.items or b.first, strict=False) if a.type == b.type == "tuple" else ()
        return Items(None, join(a.joined(), b.joined()), a.type, first=tuple(join(one, other) for one, other in first))
    if isinstance(a, Module) and isinstance(b, Module):
        options = a.options + tuple(option for option in b.options if option not in a.options)
        return Module(options)
    if all(isinstance(kind, Makers | ModuleClass | Function) for kind in (a, b)):
        left, right = (kind.options if isinstance(kind, Makers) else (kind,) for kind in (a, b))
        return Makers(left + tuple(option for option in right if option not in left))
    if isinstance(a, Instance | OneOfObjects) and isinstance(b, Instance | OneOfObjects):
        classes = [cls for kind in (a, b) for cls in (kind.classes if isinstance(kind, OneOfObjects) else (kind.cls,))]
        return OneOfObjects(tuple(dict.fromkeys(classes)))
    if isinstance(a, Operation) and isinstance(b, Operation):
        return Operation(tuple(dict.fromkeys((*a.names, *b.names))))
    if isinstance(a, Plain) and isinstance(b, Plain):
        return Plain()
    covered = a.covering(b)
    return b.covering(a) if covered == UNKNOWN else covered
