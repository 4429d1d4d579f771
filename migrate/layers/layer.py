"""The type of an entry in the layer table.

An entry is data: the codemod builds the constructor and the manifest from it in one loop, and the tests and the
reference pages are generated from it. Only the standard library is imported here.

Templates are Python expressions of the target with placeholders:

    {name}            the argument of that name, as written (its default where it was left out)
    {name:converter}  the same, through a converter (see CONVERTERS in `migrate.targets.linen`)
    {name?text}       the whole keyword is left out where the argument equals `text`, the target's own default
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

from migrate.layers.moves import Move


class Layout(enum.Enum):
    """Where the target wants the channels of the tensors that pass through a layer."""

    ANY = "any"  # elementwise: the layout of the input is the layout of the output
    FIRST = "first"  # as torch has it
    LAST = "last"  # channel-last inside; the codemod moves the channels and cancels moves that meet


@dataclass(frozen=True)
class Weight:
    """One torch tensor of a layer and the Flax leaf that it fills.

    `shape` is the Flax leaf's: an expression over the layer's arguments for each length ("?" where it is not known
    statically; one that is a tuple stands for several). `when` is an expression that must be true for the tensor to
    exist. `over` names the argument that counts copies: then `{i}` in both names runs from `first` to below it.
    """

    torch: str
    leaf: str
    shape: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    collection: str = "params"
    when: str = ""
    initializer: str = ""  # the constructor keyword that takes an initialiser for it, or "keyword.key" of a dict
    over: str = ""
    first: int = 0

    @property
    def asked(self) -> str:
        """The name that initial values are asked for by: one for all layers and directions of a recurrent network."""
        return asked_name(self.torch)


def asked_name(torch: str) -> str:
    """The name by which initial values are asked for, of one that a weight has in torch: `weight_hh` for
    `weight_hh_l1_reverse`."""
    return _ROW.sub("", torch)


def any_copy(torch: str) -> str:
    """The name of a weight of every copy of a layer, of that of one: `layers.{i}.linear1` for `layers.0.linear1`."""
    return ".".join("{i}" if key.isdigit() or key.startswith("{") else key for key in torch.split("."))


_ROW = re.compile(r"_l(\d+|\{\w*\})(_reverse)?$")


@dataclass(frozen=True)
class Part:
    """A layer that is given to another one as an argument: where its weights are in torch and in Flax. `over`: it is
    a pattern, copied as often as that argument says; `{i}` is the number of the copy."""

    argument: str
    torch: str
    leaf: str
    over: str = ""


@dataclass(frozen=True)
class Variant:
    """Another form that a layer takes where `when`, an expression over its arguments, is true or not known."""

    when: str
    template: str
    layout: Layout | None = None  # None: the layer's own
    returns: str = "tensor"
    defaults: str | None = None  # None: the layer's own


@dataclass(frozen=True)
class Sample:
    """A constructor to test and the shape of its input `x` (of indices below `high` where that is given).

    call: the arguments of the call; inputs: those besides `x`, as the examples of the rules name theirs:
    "h: f32[1, 2, 4]; mask: bool[5, 5]".
    """

    constructor: str
    shape: tuple[int, ...]
    high: int = 0
    call: str = "x"
    inputs: str = ""


@dataclass(frozen=True)
class Layer:
    """One torch layer.

    note: what is surprising about it, in a sentence.
    template: its constructor in the target; a plain function where it has no weights and no state.
    defaults: the template of its torch initial distribution, given where no other initialiser is asked for.
    rank: rank of a batched input, for layers with a channel axis that moves.
    call: the signature of its `forward`; a call that does not fit is declined. returns: what `forward` gives, as
    nested tuples of "tensor" and "None".
    trains: behaves differently in train mode. draws: needs the "dropout" stream then. Neither where the expression
    `trains_if` over the arguments is known to be false.
    refuses: argument -> (the only literal values that are supported, why). `...` is anything but None, `int` anything
    but several numbers.
    variants: forms for certain arguments; the first that applies is taken.
    parts: layers among its arguments, whose weights are its own too.
    inside: layers that it makes itself, which scripts call by their names: attribute -> layer.
    unused: torch keys that fill no leaf, with the reason.
    wraps: the argument that is a layer whose weights it computes of others; `renames`: what those are called in torch
    then, and `scale`, where the kernel has one for each output.
    waits: the argument that is told by the first input; the template and the weights have it as the others.
    axes: how many axes its output has: an expression over the arguments and `rank`, that of its first input.
    elsewhere: the form for an input whose channels are not known to be last already, of whatever rank.
    axis: the argument of the constructor that says which axis the channels are on, where there is one.
    """

    torch: str
    signature: str
    template: str
    note: str
    samples: tuple[Sample, ...]
    weights: tuple[Weight, ...] = ()
    defaults: str = ""
    layout: Layout = Layout.ANY
    rank: int = 0
    trains: bool = False
    draws: bool = False
    refuses: dict[str, tuple[tuple[object, ...], str]] = field(default_factory=dict)
    unused: tuple[tuple[str, str], ...] = ()
    snippets: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    parts: tuple[Part, ...] = ()
    inside: dict[str, str] = field(default_factory=dict)
    call: str = "input"
    returns: str = "tensor"
    trains_if: str = ""
    waits: str = ""
    wraps: str = ""
    renames: dict[str, str] = field(default_factory=dict)
    scale: str = ""
    axes: str = "rank"
    elsewhere: Variant | None = None
    axis: str = ""
