"""Layers that are told the number of their inputs by the first of them.

Flax's layers always are. torch's initial weights depend on that number, so that the constructors of dense layers and
convolutions wait for it as well.
"""

from dataclasses import replace

from migrate.layers import convolution, linear, normalization
from migrate.layers.layer import Layer, Sample

_CALLS = {
    "Linear": ("4", (3, 6)),
    "Conv1d": ("6, 3, stride=2, padding=1", (2, 4, 9)),
    "Conv2d": ("4, 3, groups=2, padding_mode='reflect', padding=1", (1, 4, 5, 6)),
    "Conv3d": ("4, 2, bias=False", (1, 2, 4, 5, 3)),
    "ConvTranspose1d": ("6, 3", (2, 4, 5)),
    "ConvTranspose2d": ("6, 3, 2, 1, 1, groups=2", (2, 4, 5, 4)),
    "ConvTranspose3d": ("3, 2, 2, 1", (1, 2, 3, 4, 3)),
    "BatchNorm1d": ("", (5, 6, 3)),
    "BatchNorm2d": ("eps=1e-3, momentum=0.01", (3, 4, 5, 6)),
    "BatchNorm3d": ("affine=False", (3, 2, 3, 4, 2)),
    "InstanceNorm1d": ("", (2, 3, 7)),
    "InstanceNorm2d": ("momentum=0.3", (2, 3, 4, 5)),
    "InstanceNorm3d": ("", (2, 2, 3, 2, 4)),
}


def _lazy(layer: Layer, name: str, call: str, shape: tuple[int, ...]) -> Layer:
    told, _, others = layer.signature.partition(", ")
    if name.startswith("InstanceNorm"):  # torch gives it the defaults of batch norms
        others = others.replace("affine=False, track_running_stats=False", "affine=True, track_running_stats=True")
    return replace(
        layer,
        torch=f"torch.nn.Lazy{name}",
        signature=others,
        note=f"The number of inputs is that of the first input. {layer.note}",
        waits=told,
        snippets=("Lazy", *layer.snippets),
        samples=(Sample(f"nn.Lazy{name}({call})", shape),),
    )


_WHOLE = {layer.torch: layer for family in (linear, convolution, normalization) for layer in family.LAYERS}

LAYERS = tuple(_lazy(_WHOLE[f"torch.nn.{name}"], name, *call) for name, call in _CALLS.items())
