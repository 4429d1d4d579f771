"""torchvision's transforms of images outside of a data set: which of them give tensors."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Kind, Tensor, is_batch
from migrate.lowering.scope import Scope
from migrate.syntax import nodes

TRANSFORM = Host("transform")  # gives a tensor, whatever it is given
RESHAPING = Host("reshaping")  # gives a tensor where it is given one, and else an image
_HOME = "torchvision.transforms"
_GIVING = ("ToTensor", "PILToTensor", "Normalize", "ConvertImageDtype")
_FUNCTIONS = ("to_tensor", "pil_to_tensor", "normalize", "convert_image_dtype")
# These give an image, or what nobody can tell; torchvision's others give what they are given.
_OTHERS = ("ToPILImage", "Lambda", "RandomApply", "RandomChoice", "RandomOrder", "Compose", "FiveCrop", "TenCrop")


def of_transforms(scope: Scope, name: str, node: cst.Call) -> Kind | None:
    """What a call of `torchvision.transforms` gives; None where that is no tensor, nor what makes one."""
    called = name.rpartition(".")[2]
    if not name.startswith(_HOME):
        return None
    if called in _FUNCTIONS:
        return Host("tensor")
    if called == "Compose" and node.args and isinstance(node.args[0].value, cst.List | cst.Tuple):
        return _composed(scope, node.args[0].value.elements)
    if called in _GIVING:
        return TRANSFORM
    return RESHAPING if called[:1].isupper() and called not in _OTHERS else None


def _composed(scope: Scope, elements: Sequence[cst.BaseElement]) -> Kind | None:
    """What transforms one after the other are: the last that changes what an image is decides."""
    for element in reversed(elements):
        call = element.value if isinstance(element.value, cst.Call) else None
        name = scope.torch_name(call.func) if call is not None else None
        made = of_transforms(scope, name, call) if name is not None and call is not None else None
        if TRANSFORM in (made, scope.kind_of(element.value)):
            return TRANSFORM
        if RESHAPING not in (made, scope.kind_of(element.value)):
            return None
    return RESHAPING


def transformed_image(node: cst.Call, kind: Kind, given: Sequence[Kind]) -> Kind | None:
    """What a call of a transform gives; None for calls of other things, and where it gives what nobody can tell."""
    if kind not in (TRANSFORM, RESHAPING):
        return None
    if any(isinstance(one, Tensor) for one in given):
        raise Unsupported("MIG302", f"{nodes.code(node.func)} of an array: torchvision's transforms take tensors")
    return Host("tensor") if kind == TRANSFORM or any(map(is_batch, given)) else None
