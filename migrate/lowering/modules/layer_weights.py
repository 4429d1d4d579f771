"""What a forward pass reads of layers: weights (`F.linear(x, self.head.weight)`, `self.codebook.weight.pow(2)`), and
what their constructors were given.

Flax keeps them among the variables of the layer, which it makes when the layer is first called. One that is read before
is therefore called in `setup`, while the weights are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import MOVED, LayerNode, ListNode, Node
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Module, ModuleClass, Plain, Tensor
from migrate.layers.layer import Layer, Layout
from migrate.layers.moves import Move, Permute
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.modules import constructors
from migrate.lowering.modules.handed_constructors import as_of_layer
from migrate.lowering.scope import Scope
from migrate.rules.rule import Call, Value, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement

# How many features a layer gives, and on which axis.
_FEATURES = {
    "torch.nn.Linear": ("out_features", -1),
    **{f"torch.nn.Conv{dimensions}d": ("out_channels", 1) for dimensions in (1, 2, 3)},
}
_TABLES = ("torch.nn.Embedding",)  # layers that make their weights in setup, as attributes


class LayerWeights(Scope):
    """Reading the weights of submodules."""

    def layer_weight(self, node: cst.Attribute, base: Value, owner: Module) -> Value | None:
        """`self.fc.weight` with the axes that it has in torch; None where it is no weight of a layer."""
        name = node.attr.value
        having = [one for one in owner.options if name in _weights_of(_in_place(one).torch)]
        if self.context != "forward" or not having:
            return None
        layers = [one for one in having if isinstance(one, LayerNode)]
        found = {next((weight for weight in one.weights if weight.torch == name), None) for one in layers}
        read = {(one.leaf, one.collection, one.moves) for one in found if one is not None}
        if len(layers) < len(owner.options) or len(read) > 1 or (None in found and len(found) > 1):
            raise Unsupported("MIG301", f"{nodes.code(node)}, which is another weight in each of several modules")
        weight = found.pop()
        if weight is None:
            return Value(nodes.name("None"), Plain("None"))  # bias=False
        rank = len(weight.shape) if weight.shape is not None else -1
        if layers[0].torch in _TABLES:
            made: Expr | None = cst.Attribute(base.node, cst.Name(weight.leaf))
        else:
            self.note_early(node.value)
            variable = nodes.expression(f'{{x}}.variables["{weight.collection}"]["{weight.leaf}"]', x=base.node)
            made = in_torch_order(variable, weight.moves)
        if made is None:
            raise Unsupported("MIG301", f"{nodes.code(node)}: its axes are not those that it has in torch")
        return Value(nodes.call("jax.lax.stop_gradient", made) if weight.still else made, Tensor("float", rank))

    def settings_of_layer(self, node: Expr) -> tuple[Layer | None, Mapping[str, Expr | None]]:
        """The layer that `self.fc` is made as, once, and what its constructor is given; None where it is none."""
        return self.settings_given(self.made_once(node))

    def made_once(self, node: Expr) -> Expr | None:
        """What the constructor of the class makes `self.fc` of, where it does so once."""
        init = self.script.classes[self.cls].method("__init__") if self.cls else None
        return None if init is None else constructors.given_once(init, nodes.dotted(node) or "")

    def settings_given(self, made: Expr | None) -> tuple[Layer | None, Mapping[str, Expr | None]]:
        """The layer that is made, and what its constructor is given."""
        if not isinstance(made, cst.Call):
            return None, {}
        layer, kind = TABLE.get(self.torch_name(made.func) or ""), self.kind_of(made.func)
        own = self.script.classes.get(kind.cls) if isinstance(kind, ModuleClass) else None
        if own is not None and own.hands_on is not None:
            layer, made = TABLE[own.extends], as_of_layer(made, own.hands_on)
        if made is None or layer is None:
            return None, {}
        parameters = signature(layer.signature)
        names = argument_names(made.args, [parameter.name for parameter in parameters])
        given = {each.name: each.default for each in parameters}
        return layer, given | {name: arg.value for name, arg in zip(names, made.args, strict=True)}

    def with_features(self, value: Value, node: Expr) -> Value:
        """What a dense layer or a convolution gives, or the last of several: its features are as many as its
        constructor says."""
        made = self.made_once(node)
        while isinstance(made, cst.Call) and self.torch_name(made.func) == "torch.nn.Sequential":
            made = next((arg.value for arg in reversed(made.args) if not self.is_elementwise(arg)), None)
        name = self.torch_name(made.func) if isinstance(made, cst.Call) else None
        setting, axis = _FEATURES.get(name or "", ("", 0))
        features = self.settings_given(made)[1].get(setting)
        if features is None or not isinstance(value.kind, Tensor):
            return value
        return replace(value, kind=replace(value.kind, length=(axis, nodes.code(features))))

    def is_elementwise(self, arg: cst.Arg) -> bool:
        """Whether a layer of several keeps the axes: an activation, dropout."""
        layer = TABLE.get(self.torch_name(arg.value.func) or "") if isinstance(arg.value, cst.Call) else None
        return layer is not None and layer.layout is Layout.ANY and not layer.weights

    def note_early(self, layer: Expr) -> None:
        """Remembers a layer of this class whose weights are read where it may not have been called yet."""
        path = nodes.dotted(layer) or ""
        if path.startswith("self.") and path.count(".") == 1 and path not in self.surely_called:
            self.script.read_early.add((self.cls, path.removeprefix("self.")))

    def note_called(self, layer: Expr) -> None:
        """Remembers a layer that has surely been called where what follows runs."""
        if len(self.blocks) == 1 and not (self.nested or self.conditional):
            self.surely_called.add(nodes.dotted(layer) or "")

    def made_early(self, facts: ClassFacts, name: str, target: Expr) -> list[Statement]:
        """The statement of `setup` that makes the weights of such a layer."""
        shape = facts.smallest.get(f"self.{name}") if (self.cls, name) in self.script.read_early else None
        if shape is None:
            return []
        text = "if self.is_initializing():\n    {layer}(jnp.zeros({shape}))"
        return nodes.statements(text, layer=target, shape=shape)


def smallest_input(call: Call, made: Expr) -> Expr | None:
    """The shape of the smallest input of a dense layer or a convolution without a batch; None of other layers."""
    if call.api == "torch.nn.Linear":
        return call.node("in_features")
    sizes = made.args[1].value if isinstance(made, cst.Call) and len(made.args) > 1 else None
    if "in_channels" not in call.bound or not isinstance(sizes, cst.Tuple):
        return None
    return nodes.tuple_of([*nodes.elements(sizes), call.node("in_channels")])


def in_torch_order(node: Expr, moves: Sequence[Move]) -> Expr | None:
    """A weight with its axes as torch has them; None where more than their order is another."""
    for move in reversed(moves):
        if not isinstance(move, Permute):
            return None
        node = _permuted(node, [move.axes.index(axis) for axis in range(len(move.axes))])
    return node


def in_order_of_flax(node: Expr, moves: Sequence[Move]) -> Expr:
    """An array with torch's axes as Flax has them, where no more than their order is another."""
    for move in moves:
        assert isinstance(move, Permute)
        node = _permuted(node, move.axes)
    return node


def _permuted(node: Expr, axes: Sequence[int]) -> Expr:
    if tuple(axes) == (1, 0):
        return nodes.transposed(node)
    return nodes.expression(f"{{x}}.transpose({', '.join(map(str, axes))})", x=node)


def _in_place(module: Node) -> LayerNode:
    """The layer that a module is in torch, where it is one: its channels may be moved before and after it."""
    if isinstance(module, ListNode) and module.keys == MOVED:
        return next((one for one in module.children if isinstance(one, LayerNode) and one.torch), LayerNode(""))
    return module if isinstance(module, LayerNode) else LayerNode("")


def _weights_of(torch: str) -> set[str]:
    """The names that the weights of a torch layer have there."""
    return {weight.torch for weight in TABLE[torch].weights} if torch in TABLE else set()
