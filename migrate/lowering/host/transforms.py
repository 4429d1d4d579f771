"""torchvision's transforms of images outside of a data set: which of them give tensors."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Kind, Tensor
from migrate.lowering.scope import Scope
from migrate.syntax import nodes

TRANSFORM = Host("transform")  # gives a tensor, whatever it is given
_HOME = "torchvision.transforms"
_GIVING = ("ToTensor", "PILToTensor", "Normalize", "ConvertImageDtype")
_FUNCTIONS = ("to_tensor", "pil_to_tensor", "normalize", "convert_image_dtype")
# These give an image, or what nobody can tell; torchvision's others give what they are given.
_OTHERS = ("ToPILImage", "Lambda", "RandomApply", "RandomChoice", "RandomOrder", "Compose")


def of_transforms(scope: Scope, name: str, node: cst.Call) -> Kind | None:
    """What a call of `torchvision.transforms` gives; None where that is no tensor, nor what makes one."""
    called = name.rpartition(".")[2]
    if not name.startswith(_HOME):
        return None
    if called in _FUNCTIONS:
        return Host("tensor")
    listed = node.args[0].value if called == "Compose" and node.args else None
    tensors = isinstance(listed, cst.List | cst.Tuple) and _end_in_tensor(scope, listed.elements)
    return TRANSFORM if tensors or called in _GIVING else None


def _end_in_tensor(scope: Scope, elements: Sequence[cst.BaseElement]) -> bool:
    """Whether transforms one after the other give a tensor: the last that changes what an image is decides."""
    for element in reversed(elements):
        call = element.value if isinstance(element.value, cst.Call) else None
        name = scope.torch_name(call.func) if call is not None else None
        made = of_transforms(scope, name, call) if name is not None and call is not None else None
        if TRANSFORM in (made, scope.kind_of(element.value)):
            return True
        if name is None or not name.startswith(_HOME) or name.rpartition(".")[2] in _OTHERS:
            return False
    return False


def transformed_image(node: cst.Call, kind: Kind, given: Sequence[Kind]) -> Kind | None:
    """What a call of a transform gives; None for calls of other things."""
    if kind != TRANSFORM:
        return None
    if any(isinstance(one, Tensor) for one in given):
        raise Unsupported("MIG302", f"{nodes.code(node.func)} of an array: torchvision's transforms take tensors")
    return Host("tensor")
