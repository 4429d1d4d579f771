"""Flax linen: how a layer of the table is constructed, and where its channels move."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import SAME_RANK, LayerNode, Passage
from migrate.known.kinds import UNKNOWN, Items, Kind, Module, Plain, Tensor
from migrate.layers.layer import Layer, Layout, Variant, Weight
from migrate.layers.table import TABLE
from migrate.rules.rule import Call, Parameter, Value, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.targets.template import fill
from migrate.targets.weights import bound_weights, evaluated, exists, unused_of_parts, wrapped_layer

__all__ = ["fill"]


def flax_class_of(layer: Layer) -> Expr | None:
    """The class that a layer is in Flax; None where it is a function there."""
    called = re.match(r"(?:\w+\.)*[A-Z]\w*(?=\()", layer.template)
    return cst.parse_expression(called.group()) if called else None


def layer_signature(layer: Layer) -> tuple[Parameter, ...]:
    """The parameters of a torch layer's constructor."""
    return _signature(layer.signature)


def call_signature(layer: Layer) -> tuple[Parameter, ...]:
    """The parameters of a torch layer's `forward`."""
    return _signature(layer.call)


_signature = functools.cache(signature)


def result_kind(returns: str, call: Call) -> Kind:
    """What a call of a layer gives, from the arguments of the call."""
    first = next(iter(call.bound.values())).kind if call.bound else UNKNOWN
    rank = first.rank if isinstance(first, Tensor) else -1
    given = {
        "tensor": Tensor("float", rank),
        "indices": Tensor("int", rank),
        "matrix": Tensor("float", 2),
        "array": Tensor("float"),
    }
    words = {word: Value(nodes.expression(f'"{word}"')) for word in given}
    return _as_kind(evaluated(returns, replace(call, bound={**call.bound, **words})), given)


def _as_kind(structure: object, given: Mapping[str, Kind]) -> Kind:
    if isinstance(structure, tuple):
        return Items(tuple(_as_kind(part, given) for part in structure), type="tuple")
    return Plain("None") if structure is None else given.get(str(structure), UNKNOWN)


def ranks_after(layer: Layer, call: Call) -> tuple[int, ...]:
    """How many axes the output of a constructed layer has, by the number of axes of its input; -1 where unknown."""
    if layer.axes == "rank":
        return SAME_RANK
    found = []
    for rank in SAME_RANK:
        given = Value(nodes.expression(str(rank)))
        axes = evaluated(layer.axes, replace(call, bound={**call.bound, "rank": given}))
        found.append(axes if isinstance(axes, int) else -1)
    return tuple(found)


def trains(layer: Layer, call: Call) -> bool:
    """Whether a constructed layer behaves differently in train mode, as far as its arguments tell."""
    return layer.trains and not (layer.trains_if and not evaluated(layer.trains_if, call))


def construct(layer: Layer, call: Call, initializers: Mapping[str, Expr], elsewhere: bool = False) -> Value:
    """The constructor of a layer in Flax and what is known of it.

    initializers: torch weight name -> initialiser expression, where the script asks for another than torch's default.
    elsewhere: it takes inputs whose channels are not known to be last already.
    """
    for name, (allowed, why) in layer.refuses.items():
        anything = ... in allowed and not nodes.is_literal(call.node(name), None)
        anything = anything or (int in allowed and not isinstance(call.node(name), cst.Tuple | cst.List))
        if call.has(name) and not anything and not any(_equal(call.node(name), value) for value in allowed):
            raise Unsupported("MIG203", f"{layer.torch}({name}={nodes.code(call.node(name))}): {why}")
    if call.has("dtype") and nodes.code(call.node("dtype")) != "jnp.float32":
        raise Unsupported("MIG203", f"{layer.torch}: weights of another type than float32")
    layer = _in_form(layer, layer.elsewhere) if elsewhere and layer.elsewhere else _form(layer, call)
    node = fill(layer.template, call)
    if isinstance(node, cst.Call) and askable_weights(layer, call):
        node = node.with_changes(args=[*node.args, *_initialisation(layer, call, initializers)])
    layout = layer.layout.value
    passage = Passage(layout, layout, layer.rank if layer.layout is Layout.LAST else 0)
    if layer.wraps:
        passage = wrapped_layer(layer, call).passage
    ranks = ranks_after(layer, call)
    in_place = call.has("inplace") and nodes.literal(call.node("inplace")) is True
    unused = (*layer.unused, *unused_of_parts(layer, call))
    tree = LayerNode(layer.torch, bound_weights(layer, call), unused, passage, layer.returns, ranks, in_place)
    return Value(node, Module((tree,)))


def with_channels_second(layer: Layer, made: Value) -> Value:
    """A layer that takes and leaves the channels where torch has them; itself where it cannot."""
    kind = made.kind
    assert isinstance(kind, Module) and isinstance(made.node, cst.Call)
    if not layer.axis or (kind.entry, kind.exit) != ("last", "last"):
        return made
    node = made.node.with_changes(args=nodes.extended(made.node.args, {layer.axis: cst.Integer("1")}))
    there = Passage("first", "first")
    options = [replace(one, passage=there) for one in kind.options if isinstance(one, LayerNode)]
    return replace(made, node=node, kind=Module(tuple(options)))


def _form(layer: Layer, call: Call) -> Layer:
    """The layer with the template of the variant that applies to its arguments."""
    for variant in layer.variants:
        if evaluated(variant.when, call):  # `...` where it is not known
            return _in_form(layer, variant)
    return layer


def _in_form(layer: Layer, variant: Variant) -> Layer:
    layout = variant.layout or layer.layout
    defaults = layer.defaults if variant.defaults is None else variant.defaults
    return replace(layer, template=variant.template, layout=layout, returns=variant.returns, defaults=defaults)


def _equal(node: Expr, value: object) -> bool:
    found = nodes.literal(node)
    return found is not ... and found == value and isinstance(found, bool) == isinstance(value, bool)


def _initialisation(layer: Layer, call: Call, asked: Mapping[str, Expr]) -> list[cst.Arg]:
    weights = [weight for weight in askable_weights(layer, call) if exists(weight, call) is not False]
    given = _by_keyword({weight.initializer: asked[weight.asked] for weight in weights if weight.asked in asked})
    if not layer.defaults or len(given) == len(weights):
        return nodes.arguments([], {k: v for k, v in given.items() if nodes.code(v) != _own_default(layer, k)})
    if not layer.defaults.startswith("torch_init"):
        made = cst.parse_expression(f"f({layer.defaults})")
        assert isinstance(made, cst.Call)
        return list(made.args)
    made = fill(layer.defaults, call)
    assert isinstance(made, cst.Call)
    made = made.with_changes(args=[*made.args, *nodes.arguments([], given)])
    return [cst.Arg(made, star="**")]


def askable_weights(layer: Layer, call: Call) -> list[Weight]:
    """The weights that a layer's constructor takes initialisers for: its own, and those of the copies that it makes of
    a layer of torch's."""
    found = [weight for weight in layer.weights if weight.initializer]
    for part in layer.parts:
        kind = call.value(part.argument).kind if part.over and call.has(part.argument) else None
        option = kind.options[0] if isinstance(kind, Module) and len(kind.options) == 1 else None
        if not isinstance(option, LayerNode) or option.torch not in TABLE:
            continue
        there = {weight.torch for weight in option.weights}
        copied = [one for one in TABLE[option.torch].weights if one.initializer and one.torch in there]
        found += [replace(one, torch=f"{part.torch}.{one.torch}", when="") for one in copied]
    return found


def started_apart(layer: Layer, call: Call, asked: Mapping[str, Expr]) -> list[Weight]:
    """Weights that one argument of a layer's constructor is for, of which some are asked to start otherwise than the
    others."""
    weights = [weight for weight in askable_weights(layer, call) if exists(weight, call) is not False]
    for keyword in dict.fromkeys(weight.initializer for weight in weights if weight.asked in asked):
        together = [one for one in weights if one.initializer == keyword]
        if len({nodes.code(asked[one.asked]) if one.asked in asked else "" for one in together}) > 1:
            return together
    return []


def _by_keyword(given: Mapping[str, Expr]) -> dict[str, Expr]:
    """Arguments of which some are entries of a dict: "initializers.bias_hh"."""
    made = {keyword: value for keyword, value in given.items() if "." not in keyword}
    entries: dict[str, dict[str, Expr]] = {}
    for keyword, value in given.items():
        if "." in keyword:
            name, _, key = keyword.partition(".")
            entries.setdefault(name, {})[key] = value
    return made | {name: _dict(found) for name, found in entries.items()}


def _dict(entries: Mapping[str, Expr]) -> Expr:
    first, *others = entries.values()
    if others and all(first.deep_equals(other) for other in others):
        keys = nodes.tuple_of([cst.SimpleString(f'"{key}"') for key in entries])
        return nodes.call("dict.fromkeys", keys, first)
    return nodes.dict_of([(key, value) for key, value in entries.items()])


# What Flax does without being asked, so that asking for it would be noise.
_FLAX_DEFAULTS = {"bias_init": "nn.initializers.zeros", "scale_init": "nn.initializers.ones"}

_OF_TRANSFORMER = "nn.initializers.xavier_uniform()"  # of every matrix of torch.nn.Transformer
_OF_FANS = 'nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")'
# What a keyword of a layer's constructor is by default, where that goes by the shape of the weight alone.
_DEFAULTS = {
    "kernel_init": _OF_FANS,
    "embedding_init": "nn.initializers.normal(1.0)",
    "scale_init": "nn.initializers.ones",
    "in_proj_init": "nn.initializers.xavier_uniform()",
    "out_proj_init": _OF_FANS,
}


def _own_default(layer: Layer, keyword: str) -> str | None:
    """What the constructor of a layer does without being asked."""
    if not layer.torch.startswith("torch.nn.Transformer"):
        return _DEFAULTS[keyword] if keyword == "in_proj_init" else _FLAX_DEFAULTS.get(keyword)
    alike = keyword == "in_proj_init" or layer.torch == "torch.nn.Transformer"
    return _OF_TRANSFORMER if alike and keyword != "bias_init" else None


def initializer_default(keyword: str, layer: Layer | None = None, call: Call | None = None) -> str:
    """torch's initial values of a weight, by the keyword of the constructor that takes its initialiser; "" where they
    go by more than the shape of the weight. `layer`: where it is known, also for the bias of a norm; `call`: its
    constructor, which tells that of other biases."""
    if layer is not None and layer.torch == "torch.nn.Transformer" and keyword != "bias_init":
        return _OF_TRANSFORMER
    if layer is not None and layer.torch.startswith("torch.nn.Transformer") and keyword == "bias_init":
        return ""
    if keyword == "bias_init" and layer is not None and not layer.defaults:
        return _FLAX_DEFAULTS[keyword]
    if keyword == "bias_init" and layer is not None and call is not None:
        defaults = _form(layer, call).defaults
        return f'{nodes.code(fill(defaults, call))}["{keyword}"]' if defaults.startswith("torch_init") else ""
    if keyword.startswith("initializers.") and call is not None and "hidden_size" in call.bound:
        bound = f"{nodes.code(nodes.parenthesized(call.bound['hidden_size'].node))} ** -0.5"
        return f"lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -{bound}, {bound})"
    return _DEFAULTS.get(keyword, "")


# What the arguments of layers are, for the annotations of fields that are passed on to them.
ARGUMENT_TYPES = {
    name: kind
    for kind, names in {
        "int": "in_features out_features in_channels out_channels groups num_embeddings embedding_dim normalized_shape "
        "num_features num_groups num_channels kernel_size stride dilation padding input_size hidden_size num_layers "
        "proj_size embed_dim num_heads d_model nhead dim_feedforward",
        "float": "p eps momentum negative_slope alpha dropout",
        "bool": "bias affine elementwise_affine bidirectional batch_first",
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


def field_of(kind: Module, attribute: str) -> str:
    """The field of a Flax layer that holds what torch's layer calls `attribute`; "" where none is known to."""
    fields = {_FIELDS.get((getattr(option, "torch", ""), attribute), "") for option in kind.options}
    return fields.pop() if len(fields) == 1 else ""


_FIELDS = {("torch.nn.Dropout", "p"): "rate", ("torch.nn.Linear", "out_features"): "features"}
