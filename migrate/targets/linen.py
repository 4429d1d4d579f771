"""Flax linen: how a layer of the table is constructed, and where its channels move."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import BoundWeight, Items, LayerNode, Module
from migrate.layers.layer import Layer, Layout, Weight
from migrate.nodes import Expr
from migrate.rules.rule import Call, Parameter, Value, signature

Arguments = Mapping[str, Value]
Converter = Callable[[Call, str], Expr]


def _repeated(call: Call, name: str, count: int) -> Expr:
    value = call.value(name)
    if isinstance(value.node, cst.Tuple) or isinstance(value.kind, Items):
        return value.node
    if isinstance(value.node, cst.List):
        return nodes.tuple_of([element.value for element in value.node.elements])
    return nodes.tuple_of([value.node] * count)


def _padding(call: Call, name: str, count: int) -> Expr:
    value = nodes.literal(call.node(name))
    if isinstance(value, str):
        return nodes.expression(f'"{value.upper()}"')
    return nodes.expression('"VALID"') if value == 0 else call.node(name)


def _stride(call: Call, name: str, count: int) -> Expr:
    return _repeated(call, name if call.has(name) else "kernel_size", count)


def _pool_padding(call: Call, name: str, count: int) -> Expr:
    if nodes.is_literal(call.node(name), 0):
        return nodes.name("VALID")
    sizes = _repeated(call, name, count)
    if not isinstance(sizes, cst.Tuple):
        raise Unsupported(
            "MIG203", f"{call.api}: padding={nodes.code(call.node(name))} must be a number or a tuple here"
        )
    return nodes.tuple_of([nodes.tuple_of([size.value, size.value]) for size in sizes.elements])


def _fan_in(call: Call, name: str, count: int) -> Expr:
    sizes = _repeated(call, "kernel_size", count)
    if not isinstance(sizes, cst.Tuple):
        raise Unsupported("MIG203", f"{call.api}: kernel_size must be a number or a tuple here")
    factors = [nodes.parenthesized(size.value) for size in sizes.elements]
    channels: Expr = nodes.parenthesized(call.node("in_channels"))
    if not nodes.is_literal(call.node("groups"), 1):
        channels = nodes.expression("{a} // {b}", a=channels, b=call.node("groups"))
    return functools.reduce(lambda product, factor: _times(product, factor), factors, channels)


def _times(a: Expr, b: Expr) -> Expr:
    if nodes.is_literal(b, 1):
        return a
    return cst.BinaryOperation(a, cst.Multiply(), b)


def _gelu_tanh(call: Call, name: str, count: int) -> Expr:
    return nodes.name("True" if call.literal(name) == "tanh" else "False")


def _both_true(call: Call, name: str, count: int) -> Expr:
    affine = call.node("elementwise_affine")
    if nodes.is_literal(affine, False):
        return nodes.name("False")
    return call.node(name)


def _trailing_axes(call: Call, name: str, count: int) -> Expr:
    value = call.value(name)
    if isinstance(value.node, cst.List | cst.Tuple):
        rank = len(value.node.elements)
        return nodes.expression("-1") if rank == 1 else nodes.expression(str(tuple(range(-rank, 0))))
    if isinstance(value.kind, Items):
        raise Unsupported("MIG203", f"{call.api}: the number of axes in {nodes.code(value.node)} is not known")
    return nodes.expression("-1")


def _item(call: Call, name: str, count: int) -> Expr:
    value = call.node(name)
    if isinstance(value, cst.Tuple | cst.List):
        return value.elements[count].value
    return nodes.expression("{x}[" + str(count) + "]", x=value)


def _transpose_padding(call: Call, name: str, count: int) -> Expr:
    """What Flax calls the padding of a transposed convolution: dilation * (kernel - 1) - padding on either side."""
    kernel, dilation, padding, more = (
        _numbers(call, argument, count) for argument in ("kernel_size", "dilation", name, "output_padding")
    )
    low = [d * (k - 1) - p for k, d, p in zip(kernel, dilation, padding, strict=True)]
    pairs = [(side, side + extra) for side, extra in zip(low, more, strict=True)]
    return nodes.tuple_of([nodes.expression(f"({one}, {other})") for one, other in pairs])


def _numbers(call: Call, name: str, count: int) -> list[int]:
    value = nodes.literal(call.node(name))
    values = [value] * count if isinstance(value, int) else value
    if isinstance(values, tuple | list) and len(values) == count and all(isinstance(number, int) for number in values):
        return list(values)
    raise Unsupported("MIG203", f"{call.api}: {name}={nodes.code(call.node(name))} must be written out in numbers here")


def _fan_in_transposed(call: Call, name: str, count: int) -> Expr:
    """torch takes the second axis of the weight for the inputs, which here is that of the outputs."""
    return _fan_in(replace(call, bound={**call.bound, "in_channels": call.value(name)}), name, count)


def _pad_pairs(call: Call, name: str, count: int) -> Expr:
    """Pairs from the last axis backwards, around channel-last data."""
    sizes = _numbers(call, name, 2 * count)
    pairs = [tuple(sizes[i : i + 2]) for i in range(0, 2 * count, 2)]
    return nodes.expression(str(((0, 0), *reversed(pairs), (0, 0))))


def _epsilon(call: Call, name: str, count: int) -> Expr:
    given = call.node(name)
    return nodes.expression("jnp.finfo(jnp.float32).eps") if nodes.is_literal(given, None) else given


CONVERTERS: dict[str, Callable[[Call, str, int], Expr]] = {
    "tuple": _repeated,
    "padding": _padding,
    "stride": _stride,
    "pool_padding": _pool_padding,
    "fan_in_conv": _fan_in,
    "gelu_tanh": _gelu_tanh,
    "and_elementwise_affine": _both_true,
    "trailing_axes": _trailing_axes,
    "item": _item,
    "transpose_padding": _transpose_padding,
    "fan_in_transposed": _fan_in_transposed,
    "pad_pairs": _pad_pairs,
    "epsilon": _epsilon,
}

_HOLE = re.compile(r"\{(\w+)(?::([a-z_]+)(\d?))?(?:\?([^{}]+))?\}")


@functools.cache
def _template(text: str) -> tuple[Expr, tuple[tuple[str, str, int, str], ...]]:
    holes: list[tuple[str, str, int, str]] = []

    def mark(match: re.Match[str]) -> str:
        holes.append((match[1], match[2] or "", int(match[3] or 0), match[4] or ""))
        return f"__hole_{len(holes) - 1}"

    return cst.parse_expression(_HOLE.sub(mark, text)), tuple(holes)


class _Holes(cst.CSTTransformer):
    """Fills the holes of a template; a keyword whose value is the target's own default is left out."""

    def __init__(self, call: Call, holes: tuple[tuple[str, str, int, str], ...]) -> None:
        super().__init__()
        self.values = [self._fill(call, *hole[:3]) for hole in holes]
        self.defaults = [hole[3] for hole in holes]

    @staticmethod
    def _fill(call: Call, name: str, converter: str, count: int) -> Expr:
        return CONVERTERS[converter](call, name, count) if converter else call.node(name)

    def _index(self, node: cst.CSTNode) -> int | None:
        found = re.fullmatch(r"__hole_(\d+)", node.value) if isinstance(node, cst.Name) else None
        return int(found[1]) if found else None

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        index = self._index(original_node)
        return updated_node if index is None else self.values[index]

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg | cst.RemovalSentinel:
        index = self._index(original_node.value)
        if index is not None and updated_node.keyword and self._same(self.values[index], self.defaults[index]):
            return cst.RemoveFromParent()
        return updated_node

    @staticmethod
    def _same(node: Expr, default: str) -> bool:
        if not default:
            return False
        written, meant = nodes.literal(node), nodes.literal(cst.parse_expression(default))
        if isinstance(written, tuple) and written and all(part == written[0] for part in written):
            written = written[0]
        return nodes.code(node) == default or (written is not ... and written == meant and type(written) is type(meant))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        if nodes.dotted(updated_node.func) == "partial" and len(updated_node.args) == 1:
            return updated_node.args[0].value  # nothing left to bind
        if updated_node.args and isinstance(updated_node.args[-1].comma, cst.Comma):
            last = updated_node.args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(args=[*updated_node.args[:-1], last])
        return updated_node

    def leave_UnaryOperation(self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation) -> Expr:
        return updated_node.with_changes(expression=nodes.parenthesized(updated_node.expression))


def fill(text: str, call: Call) -> Expr:
    """A template of the layer table (or of the optimizers) filled from a bound call."""
    parsed, holes = _template(text)
    filled = parsed.deep_clone().visit(_Holes(call, holes))
    assert isinstance(filled, cst.BaseExpression)
    return filled


def layer_signature(layer: Layer) -> tuple[Parameter, ...]:
    """The parameters of a torch layer's constructor."""
    return _signature(layer.signature)


_signature = functools.cache(signature)


def _exists(call: Call, condition: str) -> bool | None:
    """Whether a weight exists: True, False, or None where an argument decides it at run time."""
    values = [nodes.literal(call.node(name)) for name in condition.split(" and ")] if condition else []
    if any(value is not ... and not value for value in values):
        return False
    return None if any(value is ... for value in values) else True


def _length(call: Call, text: str) -> tuple[int | None, ...]:
    if text == "?":
        return (None,)
    name, _, converter = text.strip("{}").partition(":")
    value = nodes.literal(call.node(name))
    if isinstance(value, list | tuple) and converter == "shape":
        return tuple(size if isinstance(size, int) else None for size in value)
    return (value if isinstance(value, int) else None,)


def bound_weights(layer: Layer, call: Call) -> tuple[BoundWeight, ...]:
    """The weights that a constructed layer has, as manifest leaves relative to it."""
    found = []
    for weight in layer.weights:
        exists = _exists(call, weight.when)
        if exists is not False:
            found.append(_bound(weight, call))
    return tuple(found)


def _bound(weight: Weight, call: Call) -> BoundWeight:
    shape: tuple[int | None, ...] = ()
    for text in weight.shape:
        shape += _length(call, text)
    return BoundWeight(
        weight.torch, weight.collection, weight.leaf, weight.moves, shape, _exists(call, weight.when) is None
    )


def construct(layer: Layer, call: Call, initializers: Mapping[str, Expr]) -> Value:
    """The constructor of a layer in Flax and what is known of it.

    initializers: torch weight name -> initialiser expression, where the script asks for another than torch's default.
    """
    for name, (allowed, why) in layer.refuses.items():
        anything = ... in allowed and not nodes.is_literal(call.node(name), None)
        if call.has(name) and not anything and not any(_equal(call.node(name), value) for value in allowed):
            raise Unsupported("MIG203", f"{layer.torch}({name}={nodes.code(call.node(name))}): {why}")
    if layer.torch.endswith(("Softmax",)) and nodes.is_literal(call.node("dim"), None):
        raise Unsupported("MIG203", f"{layer.torch} without dim picks an axis by the rank of its input")
    if call.has("dtype") and nodes.code(call.node("dtype")) != "jnp.float32":
        raise Unsupported("MIG203", f"{layer.torch}: weights of another type than float32")
    node = fill(layer.template, call)
    if isinstance(node, cst.Call) and layer.weights:
        node = node.with_changes(args=[*node.args, *_initialisation(layer, call, initializers)])
    layout = layer.layout.value
    tree = LayerNode(layer.torch, bound_weights(layer, call), layer.unused)
    return Value(node, Module((tree,), layout, layout, layer.rank if layer.layout is Layout.LAST else 0))


def _equal(node: Expr, value: object) -> bool:
    found = nodes.literal(node)
    return found is not ... and found == value and isinstance(found, bool) == isinstance(value, bool)


def _initialisation(layer: Layer, call: Call, asked: Mapping[str, Expr]) -> list[cst.Arg]:
    weights = [weight for weight in layer.weights if weight.initializer and _exists(call, weight.when) is not False]
    given = {weight.initializer: asked[weight.torch] for weight in weights if weight.torch in asked}
    if not layer.defaults or len(given) == len(weights):
        return nodes.arguments(
            [], {k: v for k, v in given.items() if nodes.code(v) != _FLAX_DEFAULTS.get((layer.torch, k))}
        )
    if not layer.defaults.startswith("torch_init"):
        made = cst.parse_expression(f"f({layer.defaults})")
        assert isinstance(made, cst.Call)
        return list(made.args)
    made = fill(layer.defaults, call)
    assert isinstance(made, cst.Call)
    made = made.with_changes(args=[*made.args, *nodes.arguments([], given)])
    return [cst.Arg(made, star="**")]


# What Flax does without being asked, so that asking for it would be noise.
_FLAX_DEFAULTS = {
    ("torch.nn.Linear", "bias_init"): "nn.initializers.zeros",
    ("torch.nn.Conv1d", "bias_init"): "nn.initializers.zeros",
    ("torch.nn.Conv2d", "bias_init"): "nn.initializers.zeros",
    ("torch.nn.Conv3d", "bias_init"): "nn.initializers.zeros",
    ("torch.nn.LayerNorm", "bias_init"): "nn.initializers.zeros",
    ("torch.nn.LayerNorm", "scale_init"): "nn.initializers.ones",
    ("torch.nn.BatchNorm2d", "bias_init"): "nn.initializers.zeros",
    ("torch.nn.BatchNorm2d", "scale_init"): "nn.initializers.ones",
}


# What the arguments of layers are, for the annotations of fields that are passed on to them.
ARGUMENT_TYPES = {
    name: kind
    for kind, names in {
        "int": "in_features out_features in_channels out_channels groups num_embeddings embedding_dim normalized_shape "
        "num_features num_groups num_channels kernel_size stride dilation padding",
        "float": "p eps momentum negative_slope alpha",
        "bool": "bias affine elementwise_affine",
    }.items()
    for name in names.split()
}


def channels_last(node: Expr, rank: int) -> Expr:
    """Moves axis 1 to the end."""
    if rank:
        return nodes.expression("{x}.transpose(" + ", ".join(map(str, (0, *range(2, rank), 1))) + ")", x=node)
    return nodes.expression("jnp.moveaxis({x}, 1, -1)", x=node)


def channels_first(node: Expr, rank: int) -> Expr:
    """Moves the last axis back to 1."""
    if rank:
        return nodes.expression(
            "{x}.transpose(" + ", ".join(map(str, (0, rank - 1, *range(1, rank - 1)))) + ")", x=node
        )
    return nodes.expression("jnp.moveaxis({x}, -1, 1)", x=node)
