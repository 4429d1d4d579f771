"""The weights that a constructed layer has: what of the table holds for its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from migrate.diagnostics import Unsupported
from migrate.known.constructed import BoundWeight, LayerNode, ListNode, Node
from migrate.known.kinds import Module
from migrate.layers.layer import Layer, Part, Weight
from migrate.layers.moves import Permute
from migrate.rules.rule import Call
from migrate.syntax import nodes


class _Open(Exception):
    """An expression depends on an argument whose value is told at run time."""


class _Unknown:
    """An argument whose value is told at run time: whatever asks for it learns nothing."""

    def _ask(self, *_: object) -> NoReturn:
        raise _Open

    __bool__ = __eq__ = __add__ = __radd__ = __mul__ = __rmul__ = __floordiv__ = __gt__ = __lt__ = _ask
    __hash__ = None  # type: ignore[assignment]


class _Arguments(dict[str, Any]):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def __missing__(self, name: str) -> Any:
        value = nodes.literal(self.call.node(name))
        return _Unknown() if value is ... else value


def evaluated(text: str, call: Call) -> Any:
    """An expression of the table over the arguments of a call; `...` where an argument decides it at run time."""
    try:
        value = eval(text, {"__builtins__": {}}, _Arguments(call))
    except (_Open, TypeError, ArithmeticError):  # an argument that is no number yet, or a wrong one
        return ...
    return ... if isinstance(value, _Unknown) else value


def exists(weight: Weight, call: Call) -> bool | None:
    """Whether a weight exists: True, False, or None where an argument decides it at run time."""
    value = evaluated(weight.when, call) if weight.when else True
    return None if value is ... else bool(value)


def bound_weights(layer: Layer, call: Call) -> tuple[BoundWeight, ...]:
    """The weights that a constructed layer has, as manifest leaves relative to it."""
    own = tuple(
        BoundWeight(one.torch, one.collection, one.leaf, one.moves, _shape(one, call), exists(one, call) is not True)
        for weight in layer.weights
        for one in _copies(weight, call)
        if exists(weight, call) is not False
    )
    if layer.wraps:
        own += tuple(_of_wrapped(layer, call))
    return own + tuple(weight for part in layer.parts for weight in _of_part(part, call))


def lengths(weight: Weight, call: Call) -> tuple[str, ...]:
    """The lengths of a weight's axes as the constructor writes them; "?" where that is no argument alone."""
    return tuple(nodes.code(call.node(text)) if text in call.bound else "?" for text in weight.shape)


def torch_lengths(weight: Weight, call: Call) -> tuple[str, ...]:
    """The same of the axes that the weight has in torch; none where they are not those of Flax in some order."""
    found = lengths(weight, call)
    for move in reversed(weight.moves):
        if not isinstance(move, Permute):
            return ()
        found = tuple(found[move.axes.index(axis)] for axis in range(len(found)))
    return found


def wrapped_layer(layer: Layer, call: Call) -> LayerNode:
    """The layer whose kernel another one computes: its outputs are on torch's first axis and on Flax's last."""
    kind = call.value(layer.wraps).kind
    option = kind.options[0] if isinstance(kind, Module) and len(kind.options) == 1 else None
    kernel = _kernel(option) if isinstance(option, LayerNode) else None
    moves = kernel.moves if kernel is not None else ()
    if not isinstance(option, LayerNode) or len(moves) != 1 or not isinstance(moves[0], Permute):
        raise Unsupported(
            "MIG203",
            f"{call.api} of {nodes.code(call.node(layer.wraps))}: only of a dense layer or a "
            "convolution of torch's own",
        )
    return option


def _kernel(option: LayerNode) -> BoundWeight | None:
    return next((weight for weight in option.weights if (weight.torch, weight.leaf) == ("weight", "kernel")), None)


def _of_wrapped(layer: Layer, call: Call) -> Iterator[BoundWeight]:
    """The weights of a layer that another one holds."""
    option = wrapped_layer(layer, call)
    for weight in option.weights:
        yield replace(weight, torch=layer.renames.get(weight.torch, weight.torch), leaf=f"layer/{weight.leaf}")
        if layer.scale and weight is _kernel(option):
            shape = None if weight.shape is None else (*[1] * (len(weight.shape) - 1), weight.shape[-1])
            yield replace(weight, torch=layer.scale, leaf="scale", shape=shape)


def _of_part(part: Part, call: Call) -> Iterator[BoundWeight]:
    """The weights of a layer that is an argument of another one."""
    for inside, layer in _layers_of(part, call):
        yield from _placed(part, call, inside, layer)


def unused_of_parts(layer: Layer, call: Call) -> Iterator[tuple[str, str]]:
    """What the layers among the arguments of a layer have in torch that fills no leaf, with the reasons."""
    for part in layer.parts:
        for inside, held in () if part.over else _layers_of(part, call):
            yield from ((f"{part.torch}.{_under(inside)}{key}", reason) for key, reason in held.unused)


def _placed(part: Part, call: Call, inside: Sequence[int], layer: LayerNode) -> Iterator[BoundWeight]:
    """The weights of a layer in an argument, of which `inside` has its number, or several where rows are in rows."""
    leaves = "".join(f"layers_{number}/" for number in inside)
    for weight in layer.weights:
        torch, leaf = f"{part.torch}.{_under(inside)}{weight.torch}", f"{part.leaf}/{leaves}{weight.leaf}"
        place = Weight(torch, leaf, (), over=part.over)
        for one in _copies(place, call):
            optional = weight.optional or "{i}" in one.torch
            yield replace(weight, torch=one.torch, leaf=one.leaf, optional=optional)


def _under(inside: Sequence[int]) -> str:
    return "".join(f"{number}." for number in inside)


def _layers_of(part: Part, call: Call) -> Iterator[tuple[tuple[int, ...], LayerNode]]:
    """The layer that an argument is, or those of the Sequential that it is, with their numbers; none for None."""
    value = call.value(part.argument)
    if nodes.is_literal(value.node, None):
        return
    option = value.kind.options[0] if isinstance(value.kind, Module) and len(value.kind.options) == 1 else None
    if option is None or not _holds_layers(option, alone=bool(part.over)):
        raise Unsupported("MIG203", f"{call.api}: {part.argument} must be one of torch's own layers here")
    yield from _numbered(option)


def _holds_layers(option: Node, alone: bool) -> bool:
    """Whether a module is a layer of torch's or, unless it must be `alone`, a Sequential of some."""
    if isinstance(option, LayerNode):
        return True
    if not isinstance(option, ListNode) or alone or option.infix != "/layers_" or option.dynamic or option.keys:
        return False
    channels = (option.passage.entry, option.passage.exit)
    return "last" not in channels and all(_holds_layers(child, alone) for child in option.children)


def _numbered(option: Node) -> Iterator[tuple[tuple[int, ...], LayerNode]]:
    if isinstance(option, LayerNode):
        yield (), option
    elif isinstance(option, ListNode):
        for number, child in enumerate(option.children):
            yield from (((number, *inside), layer) for inside, layer in _numbered(child))


def _copies(weight: Weight, call: Call) -> Iterator[Weight]:
    """One for each copy; where their number is not known, one whose names keep `{i}` and that may be absent."""
    count = evaluated(weight.over, call) if weight.over else None
    if count is None:
        yield weight
    elif isinstance(count, int):
        for number in range(weight.first, count):
            torch, leaf = (name.replace("{i}", str(number)) for name in (weight.torch, weight.leaf))
            yield replace(weight, torch=torch, leaf=leaf)
    else:
        yield replace(weight, when=weight.over)  # an unknown number: None, hence optional


def _shape(weight: Weight, call: Call) -> tuple[int | None, ...]:
    lengths: list[int | None] = []
    for text in weight.shape:
        value = ... if text == "?" else evaluated(text, call)
        each = value if isinstance(value, list | tuple) else [value]
        lengths += [length if isinstance(length, int) else None for length in each]
    return tuple(lengths)
