"""Converters: what an argument of a torch layer becomes where it is not passed on as it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import SIZES, Items, Module, Number, TorchName
from migrate.rules.rule import Call, Value
from migrate.rules.sizes import each_axis
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.syntax.reckoning import reckoned


def _repeated(call: Call, name: str, count: int) -> Expr:
    return each_axis(call, call.value(name), count)


def _padding(call: Call, name: str, count: int) -> Expr:
    value = nodes.literal(call.node(name))
    if isinstance(value, str):
        return nodes.expression(f'"{value.upper()}"')
    return nodes.expression('"VALID"') if value == 0 else call.node(name)


def _stride(call: Call, name: str, count: int) -> Expr:
    """None is the size of the kernel: a value of which that is not known may be None."""
    if not call.has(name):
        return _repeated(call, "kernel_size", count)
    stride, kernel = call.value(name), call.value("kernel_size")
    known = isinstance(stride.kind, Number | Items) or stride.kind == SIZES
    if known or not isinstance(stride.node, cst.Name | cst.Attribute | cst.Subscript):
        return each_axis(call, stride, count)
    either = cst.BooleanOperation(stride.node, cst.Or(), kernel.node)
    kind = SIZES if isinstance(kernel.kind, Items) or kernel.kind == SIZES else Number()
    return each_axis(call, Value(either, kind), count)


def _pool_padding(call: Call, name: str, count: int) -> Expr:
    if nodes.is_literal(call.node(name), 0):
        return nodes.name("VALID")
    return _pool_pairs(call, name, count)


def _fan_in(call: Call, name: str, count: int) -> Expr:
    sizes = _repeated(call, "kernel_size", count)
    if not isinstance(sizes, cst.Tuple):
        sizes = nodes.tuple_of([nodes.call("np.prod", sizes)])
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
    affine = call.node("elementwise_affine" if "elementwise_affine" in call.defaults else "affine")
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
    """What Flax calls the padding of a transposed convolution, as one number where it is the same on all sides."""
    pairs = _transpose_sides(call, name, count)
    alike = {nodes.code(side) for pair in pairs for side in pair}
    return pairs[0][0] if len(alike) == 1 else _in_pairs(pairs)


def _transpose_pairs(call: Call, name: str, count: int) -> Expr:
    return _in_pairs(_transpose_sides(call, name, count))


def _in_pairs(pairs: list[tuple[Expr, Expr]]) -> Expr:
    return nodes.tuple_of([nodes.tuple_of(pair) for pair in pairs])


def _transpose_sides(call: Call, name: str, count: int) -> list[tuple[Expr, Expr]]:
    """On either side of each axis dilation * (kernel - 1) - padding, and the output padding behind."""
    sides: list[tuple[Expr, Expr]] = []
    given = (_for_each_axis(call, argument, count) for argument in ("kernel_size", "dilation", name, "output_padding"))
    for kernel, dilation, padding, more in zip(*given, strict=True):
        before = nodes.expression("{kernel} - 1", kernel=kernel)
        if not nodes.is_literal(dilation, 1):
            before = nodes.expression("{dilation} * {x}", dilation=dilation, x=before)
        before = before if nodes.is_literal(padding, 0) else _and_then(before, cst.Subtract(), padding)
        behind = before if nodes.is_literal(more, 0) else _and_then(before, cst.Add(), more)
        sides.append((_in_numbers(before), _in_numbers(behind)))
    return sides


def _and_then(a: Expr, operator: cst.BaseBinaryOp, b: Expr) -> Expr:
    """`a + b`, where a is a sum or a product itself, and needs no parentheses."""
    return cst.BinaryOperation(a, operator, nodes.parenthesized(b))


def _in_numbers(node: Expr) -> Expr:
    """The number that an expression of numbers alone is; one with names stays."""
    number = reckoned(node, {})
    return node if number is ... else nodes.expression(str(number))


def _for_each_axis(call: Call, name: str, count: int) -> list[Expr]:
    """A number for each axis, which may have a name. Raises Unsupported where it is not known that there is one."""
    value = call.value(name)
    found: list[Expr] = []
    if isinstance(value.kind, Number) or isinstance(nodes.literal(value.node), int):
        found = [value.node] * count
    elif isinstance(value.node, cst.Tuple | cst.List) and len(value.node.elements) == count:
        found = [element.value for element in value.node.elements]
    if not found or any(nodes.literal(one) is not ... and not isinstance(nodes.literal(one), int) for one in found):
        raise _not_in_numbers(call, name)
    return found


def _numbers(call: Call, name: str, count: int) -> list[int]:
    value = nodes.literal(call.node(name))
    values = [value] * count if isinstance(value, int) else value
    if isinstance(values, tuple | list) and len(values) == count and all(isinstance(number, int) for number in values):
        return list(values)
    raise _not_in_numbers(call, name)


def _not_in_numbers(call: Call, name: str) -> Unsupported:
    told = f"{call.api}: {name}={nodes.code(call.node(name))} must be written out in numbers here"
    return Unsupported("MIG203", told)


def _fan_in_transposed(call: Call, name: str, count: int) -> Expr:
    """torch takes the second axis of the weight for the inputs, which here is that of the outputs."""
    return _fan_in(replace(call, bound={**call.bound, "in_channels": call.value(name)}), name, count)


def _pad_pairs(call: Call, name: str, count: int) -> Expr:
    """Pairs from the last axis backwards, around channel-last data."""
    sizes = _for_each_axis(call, name, 2 * count)
    if any(isinstance(one, int) and one < 0 for one in map(nodes.literal, sizes)):
        raise Unsupported("MIG203", f"{call.api}: {name}={nodes.code(call.node(name))} cuts, where jnp.pad only adds")
    none = nodes.expression("0")
    pairs = [(none, none), *reversed([(sizes[i], sizes[i + 1]) for i in range(0, 2 * count, 2)]), (none, none)]
    return _in_pairs(pairs)


def _pad_triples(call: Call, name: str, count: int) -> Expr:
    """The same for `jax.lax.pad`, where negative numbers cut; the third ones would pad between elements."""
    sizes, none = _for_each_axis(call, name, 2 * count), nodes.expression("0")
    triples = [(sizes[i], sizes[i + 1], none) for i in range(0, 2 * count, 2)]
    around = (none, none, none)
    return nodes.tuple_of([nodes.tuple_of(one) for one in (around, *reversed(triples), around)])


def _epsilon(call: Call, name: str, count: int) -> Expr:
    given = call.node(name)
    return nodes.expression("jnp.finfo(jnp.float32).eps") if nodes.is_literal(given, None) else given


def _training(call: Call, name: str, count: int) -> Expr:
    """The mode of the module, where an argument such as the share of dropout makes it matter."""
    value = nodes.literal(call.node(name))
    return nodes.name("False") if value is not ... and not value else nodes.expression("self.training")


def _training_of(call: Call, name: str, count: int) -> Expr:
    """The same of a layer of which two arguments do that: `name`, and dropout."""
    plain = nodes.is_literal(_training(call, name, count), False)
    return _training(call, "dropout", count) if plain else nodes.expression("self.training")


_ACTIVATIONS = {
    "relu": "nn.relu",
    "torch.relu": "nn.relu",
    "torch.nn.functional.relu": "nn.relu",
    "gelu": "partial(nn.gelu, approximate=False)",
    "torch.nn.functional.gelu": "partial(nn.gelu, approximate=False)",
    "torch.nn.functional.silu": "nn.silu",
    "torch.tanh": "jnp.tanh",
}


def _activation(call: Call, name: str, count: int) -> Expr:
    """An activation given by its name, as a function of torch's, or as a layer."""
    value = call.value(name)
    if not call.has(name):
        return nodes.expression("nn.relu")
    known = value.kind.name if isinstance(value.kind, TorchName) else nodes.literal(value.node)
    if isinstance(known, str) and known in _ACTIVATIONS:
        return nodes.expression(_ACTIVATIONS[known])
    if isinstance(value.kind, Module) and not isinstance(value.node, cst.Attribute):
        return value.node
    raise Unsupported("MIG203", f"{call.api}: activation={nodes.code(value.node)} is not a function that is known")


def _behind(call: Call, name: str, count: int) -> Expr:
    """The axis behind the last of a range; None behind the last of all."""
    last = nodes.literal(call.node(name))
    if not isinstance(last, int):
        raise Unsupported("MIG203", f"{call.api}: {name}={nodes.code(call.node(name))} must be a number here")
    return nodes.name("None") if last == -1 else nodes.expression(str(last + 1))


def _as_tuple(call: Call, name: str, count: int) -> Expr:
    node = call.node(name)
    return nodes.tuple_of([element.value for element in node.elements]) if isinstance(node, cst.List) else node


def _pad_width(call: Call, name: str, count: int) -> Expr:
    """The pairs that a convolution pads by before it slides; "same" puts the odd one behind."""
    padding = nodes.literal(call.node(name))
    if padding == "same":
        kernel, dilation = (_numbers(call, argument, count) for argument in ("kernel_size", "dilation"))
        totals = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        pairs = [(total // 2, total - total // 2) for total in totals]
        return nodes.tuple_of([nodes.expression(str(pair)) for pair in pairs])
    if padding == "valid":
        return nodes.tuple_of([nodes.expression("(0, 0)")] * count)
    return _pool_pairs(call, name, count)


def _pool_pairs(call: Call, name: str, count: int) -> Expr:
    sizes = _repeated(call, name, count)
    if not isinstance(sizes, cst.Tuple):
        text = nodes.code(call.node(name))
        raise Unsupported("MIG203", f"{call.api}: padding={text} must be a number or a tuple here")
    return nodes.tuple_of([nodes.tuple_of([size.value, size.value]) for size in sizes.elements])


def _pad_mode(call: Call, name: str, count: int) -> Expr:
    """What `jnp.pad` calls a padding mode of torch."""
    mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[str(nodes.literal(call.node(name)))]
    return nodes.expression(f'"{mode}"')


def _kernel_axis(call: Call, name: str, count: int) -> Expr:
    """Which axis of the kernel is that of the outputs: the last one, but in a transposed convolution."""
    kind, dim = call.value("module").kind, nodes.literal(call.node(name))
    transposed = isinstance(kind, Module) and "ConvTranspose" in getattr(kind.options[0], "torch", "")
    if dim is None:
        dim = 1 if transposed else 0
    if dim not in (0, 1):
        raise Unsupported("MIG203", f"{call.api}: {name}={nodes.code(call.node(name))} is not the axis of the outputs")
    return nodes.expression("-1" if dim == 0 else "-2")


CONVERTERS: dict[str, Callable[[Call, str, int], Expr]] = {
    "tuple": _repeated,
    "padding": _padding,
    "stride": _stride,
    "pool_padding": _pool_padding,
    "fan_in_conv": _fan_in,
    "gelu_tanh": _gelu_tanh,
    "and_affine": _both_true,
    "trailing_axes": _trailing_axes,
    "item": _item,
    "transpose_padding": _transpose_padding,
    "transpose_pairs": _transpose_pairs,
    "fan_in_transposed": _fan_in_transposed,
    "pad_pairs": _pad_pairs,
    "pad_triples": _pad_triples,
    "epsilon": _epsilon,
    "training": _training,
    "training_of": _training_of,
    "pad_width": _pad_width,
    "pad_mode": _pad_mode,
    "behind": _behind,
    "as_tuple": _as_tuple,
    "activation": _activation,
    "kernel_axis": _kernel_axis,
}
