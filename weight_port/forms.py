"""What torch may have stored for a Flax leaf: by the kind of its layer, never by its rank.

The moves of layers that the layer table knows are taken from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod

from migrate.layers.moves import Flip, Move, Permute, Reshape
from migrate.layers.table import TABLE

FLATTENED = "FlattenLinear"  # what `layers` calls a Linear behind torch's flatten of an image, channels first
MATRICES = ("Linear", "Conv1D", FLATTENED)  # layers whose weights only their classes tell apart
NORMS = ("LayerNorm", "GroupNorm", "RMSNorm", "InstanceNorm", "BatchNorm")


# what belongs together in a layer; any other parameter or buffer of a module stands for itself, as the one leaf ALONE
TORCH_LEAVES = ("weight", "bias", "gamma", "beta", "running_mean", "running_var")
FLAX_LEAVES = ("kernel", "scale", "bias", "weight", "gamma", "beta")
ALONE = ""


@dataclass(frozen=True)
class Kind:
    """What a Flax layer is. name: its class, "" for a parameter of a module's own.

    inputs: how many axes of a kernel are inputs (DenseGeneral). transposed: ConvTranspose(transpose_kernel=True).
    spread: a Conv(input_dilation=...) of so many groups, which is what a transposed convolution with groups becomes.
    """

    name: str = ""
    inputs: int = 1
    transposed: bool = False
    spread: int = 0


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
    layer of a stack.
    """

    path: str
    kind: Kind
    leaves: Mapping[str, tuple[int, ...]]
    collections: Mapping[str, str] = field(default_factory=dict)
    flattened: tuple[int, ...] = ()
    place: Place | None = None

    def name(self, leaf: str) -> str:
        """The path of a leaf in the Flax tree, that of the whole where it is one of a stack."""
        path = self.path if self.place is None else self.place.path
        return "/".join(filter(None, (self.collections.get(leaf, "params"), path, leaf)))

    @property
    def signature(self) -> object:
        """What equal layers have in common."""
        return self.kind, tuple(sorted(self.leaves.items()))


@dataclass(frozen=True)
class Form:
    """One way to fill a leaf: the tensor ``suffix`` of a torch ``layer``, moved."""

    suffix: str
    layer: str
    moves: tuple[Move, ...] = ()


def forms(slot: Slot, leaf: str) -> Iterator[Form]:
    """Every known way to fill a leaf; which of them fits, the shapes tell."""
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
    elif not kind.name and leaf in ("scale", "gamma", "weight") and len(shape) == 1:  # a norm of one's own
        yield Form("weight", "")
        yield Form("gamma", "")
    elif not kind.name and leaf == "beta":
        yield Form("beta", "")
        yield Form("bias", "")
    else:  # a bias, or ALONE
        yield Form(leaf, "")


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
