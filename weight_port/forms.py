"""What torch may have stored for a Flax leaf: by the kind of its layer, never by its rank.

The moves of layers that the layer table knows are taken from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod

from migrate.layers.moves import Flip, Move, Permute, Reshape, Shape, show
from migrate.layers.table import TABLE

FLATTENED = "FlattenLinear"  # what `layers` calls a Linear behind torch's flatten of an image, channels first
MATRICES = ("Linear", "Conv1D", FLATTENED)  # layers whose weights only their classes tell apart
NORMS = ("LayerNorm", "GroupNorm", "RMSNorm", "InstanceNorm", "BatchNorm")


# what belongs together in a layer; any other parameter or buffer of a module stands for itself, as the one leaf ALONE
TORCH_LEAVES = ("weight", "bias", "gamma", "beta", "running_mean", "running_var")
FLAX_LEAVES = ("kernel", "scale", "bias", "weight", "gamma", "beta")
ALONE = ""
# parameters of a module of one's own that are called as Flax calls those of its layers, and torch's layers
_NAMED_AS = {"embedding": "Embedding", "negative_slope": "PReLU"}
# what WeightNorm keeps of a kernel beside its direction; torch stores weight_v and weight_g of the two
SCALE = "kernel/scale"
DIRECTION: str = "weight_v"
LENGTH: str = "weight_g"


@dataclass(frozen=True)
class Kind:
    """What a Flax layer is. name: its class, "" for a parameter of a module's own.

    inputs: how many axes of a kernel are inputs (DenseGeneral). transposed: ConvTranspose(transpose_kernel=True).
    spread: a Conv(input_dilation=...) of so many groups, which is what a transposed convolution with groups becomes.
    norms: the axes of a kernel that WeightNorm gives a norm each; None where the kernel is not normalised.
    """

    name: str = ""
    inputs: int = 1
    transposed: bool = False
    spread: int = 0
    norms: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Place:
    """Where a layer is in a stack: the path of the whole, the axis along which it is stacked, and the number."""

    path: str
    axis: int
    number: int


@dataclass(frozen=True)
class Slot:
    """A layer of the Flax model with the shapes of its leaves, by name; ``collections`` where each of them is.

    ``flattened``: the shape (*spatial, channels) of the image that its input is the flattening of. ``place``: of one
    layer of a stack. ``elsewhere``: the paths of leaves that do not lie under the layer's.
    """

    path: str
    kind: Kind
    leaves: Mapping[str, tuple[int, ...]]
    collections: Mapping[str, str] = field(default_factory=dict)
    flattened: tuple[int, ...] = ()
    place: Place | None = None
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def name(self, leaf: str) -> str:
        """The path of a leaf in the Flax tree, that of the whole where it is one of a stack."""
        if leaf in self.elsewhere:
            return self.elsewhere[leaf]
        path = self.path if self.place is None else self.place.path
        return "/".join(filter(None, (self.collections.get(leaf, "params"), path, leaf)))

    @property
    def signature(self) -> object:
        """What equal layers have in common."""
        return self.kind, tuple(sorted(self.leaves.items()))


@dataclass(frozen=True)
class Form:
    """One way to fill a leaf: the tensor ``suffix`` of a torch ``layer``, moved; ``stored``: its shape, where the
    moves alone would take others."""

    suffix: str
    layer: str
    moves: tuple[Move, ...] = ()
    stored: Shape | None = None


def forms(slot: Slot, leaf: str) -> Iterator[Form]:
    """Every known way to fill a leaf; which of them fits, the shapes tell."""
    if slot.kind.norms is None or leaf not in ("kernel", SCALE):
        yield from _plain(slot, leaf)
        return
    for form in _plain(slot, "kernel"):
        if leaf == "kernel":
            yield replace(form, suffix=DIRECTION)
        elif all(isinstance(move, Permute | Flip) for move in form.moves):
            yield _length(form, slot.leaves["kernel"], slot.kind.norms)


def wanted_parts(slot: Slot) -> str:
    """What a layer in WeightNorm needs of torch, in words; nothing of other layers."""
    if slot.kind.norms is None:
        return ""
    listed = [show(form.stored) for form in forms(slot, SCALE)]
    axes = f"WeightNorm(feature_axes={slot.kind.norms or None})"
    if not listed:
        return f"{axes} around a {slot.kind.name} is not supported: use the plain layer, the weight is folded into it."
    shapes = " or ".join(listed)
    return f"{axes} keeps it in two, as torch's weight_norm has to: a {LENGTH} of {shapes} beside a {DIRECTION}."


def _length(form: Form, kernel: tuple[int, ...], norms: tuple[int, ...]) -> Form:
    """Torch keeps the axes that it sums over with a length of 1, and none at all where there is one norm for all."""
    axes = {axis % len(kernel) for axis in norms}
    shape = tuple(length for axis, length in enumerate(kernel) if axis in axes)
    if not axes:
        return Form(LENGTH, form.layer, (), ())
    moves = tuple(move for move in form.moves if isinstance(move, Permute))
    stored: Shape = tuple(length if axis in axes else 1 for axis, length in enumerate(kernel))
    for move in reversed(moves):
        stored = move.inverse(stored).shape(stored)
    return Form(LENGTH, form.layer, (*moves, Reshape(shape)), stored)


def _plain(slot: Slot, leaf: str) -> Iterator[Form]:
    shape, kind = slot.leaves[leaf], slot.kind
    if kind.name == "Dense" and leaf == "kernel":
        yield Form("weight", "Linear", _moves("Linear"))
        yield Form("weight", "Conv1D")  # transformers' own, of GPT-2 and its like: (inputs, outputs)
        if slot.flattened and prod(slot.flattened) == shape[0]:
            yield Form("weight", FLATTENED, _flattened(slot.flattened, shape))
    elif kind.name == "DenseGeneral" and leaf == "kernel":
        inputs, outputs = prod(shape[: kind.inputs]), prod(shape[kind.inputs :])
        yield Form("weight", "Linear", (Reshape((outputs, inputs)), *_moves("Linear"), Reshape(shape)))
        yield Form("weight", "Conv1D", (Reshape((inputs, outputs)), Reshape(shape)))
    elif kind.name == "DenseGeneral" and leaf == "bias":
        yield Form("bias", "", (Reshape((prod(shape),)), Reshape(shape)))
    elif kind.spread and leaf == "kernel":
        yield Form("weight", f"ConvTranspose{len(shape) - 2}d", _spread(shape, kind.spread))
    elif kind.name == "Conv" and leaf == "kernel":
        yield Form("weight", f"Conv{len(shape) - 2}d", _moves(f"Conv{len(shape) - 2}d"))
    elif kind.name == "ConvTranspose" and leaf == "kernel":
        layer, spatial = f"ConvTranspose{len(shape) - 2}d", tuple(range(len(shape) - 2))
        turned = (Permute((*(axis + 2 for axis in spatial), 0, 1)), Flip(spatial))
        yield Form("weight", layer, _moves(layer) if kind.transposed else turned)
    elif kind.name == "Embed" and leaf == "embedding":
        yield Form("weight", "Embedding")
    elif kind.name in NORMS and leaf in ("scale", "bias"):
        yield Form({"scale": "weight", "bias": "bias"}[leaf], "")
        yield Form({"scale": "gamma", "bias": "beta"}[leaf], "")
    elif kind.name == "BatchNorm" and leaf in ("mean", "var"):
        yield Form(f"running_{leaf}", "")
    elif kind.name == "PReLU" and leaf == "negative_slope":
        yield Form("weight", "PReLU", (Reshape(()),))
    elif not kind.name and leaf == "kernel" and len(shape) == 2:
        yield Form("weight", "Linear", _moves("Linear"))
        yield Form("weight", "Conv1D")
    elif not kind.name and (leaf in ("scale", "gamma") or (leaf == "weight" and len(shape) == 1)):  # one's own norm
        yield Form("weight", "")
        yield Form("gamma", "")
    elif not kind.name and leaf == "beta":
        yield Form("beta", "")
        yield Form("bias", "")
    else:  # a bias, or ALONE
        yield Form(leaf, "")
        if leaf == ALONE and (layer := _NAMED_AS.get(slot.path.rpartition("/")[2])):
            yield Form("weight", layer)


@cache
def _moves(layer: str) -> tuple[Move, ...]:
    table = TABLE.get(f"torch.nn.{layer}")
    found = [weight.moves for weight in table.weights if weight.torch == "weight"] if table else []
    return found[0] if found else ()


def _flattened(image: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Move, ...]:
    """Torch flattens (channels, *spatial), Flax (*spatial, channels)."""
    *spatial, channels = image
    last = len(image)
    axes = (*range(2, last + 1), 1, 0)
    return Reshape((shape[1], channels, *spatial)), Permute(axes), Reshape(shape)


def _spread(shape: tuple[int, ...], groups: int) -> tuple[Move, ...]:
    """Torch has (inputs, outputs / groups, *spatial), Flax (*spatial, inputs / groups, outputs), turned round."""
    *lengths, inputs, outputs = shape
    spatial = tuple(range(3, 3 + len(lengths)))
    return (
        Reshape((groups, inputs, outputs // groups, *lengths)),
        Permute((*spatial, 1, 0, 2)),
        Flip(tuple(range(len(lengths)))),
        Reshape(shape),
    )
