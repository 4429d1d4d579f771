"""Sizes of a layer in its initial weights: `n = m.kernel_size[0] * m.kernel_size[1] * m.out_channels`.

An initialiser of JAX's is given the shape of the kernel that it fills: what torch reads from the layer is read there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

_KERNELS = {f"torch.nn.Conv{n}d": n for n in (1, 2, 3)}  # their shape in Flax: (*kernel, in / groups, out)
_ATTRIBUTES = {
    **{name: {"out_channels": "shape[-1]"} for name in _KERNELS},
    "torch.nn.Linear": {"in_features": "shape[0]", "out_features": "shape[1]"},
    "torch.nn.Embedding": {"num_embeddings": "shape[0]", "embedding_dim": "shape[1]"},
}
_AXES = {  # of the weight as torch has it
    **{name: ["shape[-1]", "shape[-2]", *(f"shape[{axis}]" for axis in range(n))] for name, n in _KERNELS.items()},
    "torch.nn.Linear": ["shape[1]", "shape[0]"],
    "torch.nn.Embedding": ["shape[0]", "shape[1]"],
}


def by_shape(made: Expr, layer: str, module: str) -> Expr:
    """An initialiser of the weight of a layer, with the sizes of the layer, which `module` stands for, read from the
    shape that it is given. What it reads else of the layer stays as it is."""
    if module not in usage.loads(made):
        return made
    sized = nodes.visited(made, _Sizes(layer, module))
    if "shape" not in usage.loads(sized) or isinstance(sized, cst.Lambda):
        return sized
    return _scaled(sized, layer) or nodes.expression(
        "lambda key, shape, dtype=jnp.float32: {made}(key, shape, dtype)", made=sized
    )


class _Sizes(cst.CSTTransformer):
    def __init__(self, layer: str, module: str) -> None:
        super().__init__()
        self.layer, self.module = layer, module
        self.weights = (f"{module}.weight", f"{module}.weight.data")

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        known = _ATTRIBUTES.get(self.layer, {}).get(original_node.attr.value)
        of_layer = known is not None and nodes.dotted(original_node.value) == self.module
        return nodes.expression(known) if of_layer and known else updated_node

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        index = original_node.slice[0].slice if len(original_node.slice) == 1 else None
        number = nodes.literal(index.value) if isinstance(index, cst.Index) else None
        owner = nodes.code(original_node.value)
        axes = _AXES.get(self.layer, [])
        if owner == f"{self.module}.kernel_size":
            axes = axes[2:]
        elif owner not in [f"{weight}.{read}" for weight in self.weights for read in ("shape", "size()")]:
            return updated_node
        return _axis(axes, number) or updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        sizes = [f"{weight}.size" for weight in self.weights]
        if nodes.dotted(original_node.func) not in sizes or len(original_node.args) != 1:
            return updated_node
        return _axis(_AXES.get(self.layer, []), nodes.literal(original_node.args[0].value)) or updated_node


def _axis(axes: Sequence[str], number: object) -> Expr | None:
    known = type(number) is int and -len(axes) <= number < len(axes)
    return nodes.expression(axes[number]) if known and isinstance(number, int) else None


def _scaled(made: Expr, layer: str) -> Expr | None:
    """`normal(sqrt(2 / n))` where n is the fan of a convolution; None for other initialisers."""
    if not isinstance(made, cst.Call) or nodes.dotted(made.func) != "nn.initializers.normal" or layer not in _KERNELS:
        return None
    ratio = _under_root(made.args[0].value)
    if not isinstance(ratio, cst.BinaryOperation) or not isinstance(ratio.operator, cst.Divide):
        return None
    if not isinstance(nodes.literal(ratio.left), int | float):
        return None
    kernel = [f"shape[{axis}]" for axis in range(_KERNELS[layer])]
    factors = sorted(nodes.code(factor) for factor in _factors(ratio.right))
    for fan, channels in (("fan_in", "shape[-2]"), ("fan_out", "shape[-1]")):
        if factors == sorted([*kernel, channels]):
            return nodes.expression(
                'nn.initializers.variance_scaling({scale}, "' + fan + '", "normal")', scale=_bare(ratio.left)
            )
    return None


def _under_root(node: Expr) -> Expr | None:
    """What a square root is taken of; None where none is."""
    if isinstance(node, cst.Call) and nodes.dotted(node.func) in ("math.sqrt", "np.sqrt", "numpy.sqrt"):
        return node.args[0].value
    power = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power)
    if power and isinstance(node, cst.BinaryOperation):
        exponent = nodes.literal(node.right)
        return node.left if isinstance(exponent, float) and math.isclose(exponent, 0.5, rel_tol=0) else None
    return None


def _factors(node: Expr) -> list[Expr]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        return [*_factors(node.left), *_factors(node.right)]
    if isinstance(node, cst.Call) and nodes.dotted(node.func) in ("float", "int") and len(node.args) == 1:
        return _factors(node.args[0].value)
    return [_bare(node)]


def _bare(node: Expr) -> Expr:
    return node.with_changes(lpar=[], rpar=[])
