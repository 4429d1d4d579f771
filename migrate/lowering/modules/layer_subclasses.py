"""Classes that inherit from a layer of torch's: `class LayerNorm(nn.LayerNorm)` with a `forward` of its own.

They inherit from the Flax layer, under whose names their weights stay. What the layer computes is `super()` there as it
is here; its settings have other names in Flax, so that only the user's own methods may be asked of `self`.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import BoundWeight, ClassNode, LayerNode, Passage
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Model, Module, Number
from migrate.known.qualified import inside
from migrate.layers.layer import Layer, Layout
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.modules.handed_constructors import as_of_layer, handed_on
from migrate.lowering.modules.setup import Setup
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr
from migrate.targets.linen import flax_class_of


class LayerSubclasses(Setup):
    """Definitions of such classes, their constructors, and `super().forward(x)` in them."""

    def layer_subclass(self, node: cst.ClassDef, layer: Layer) -> Expr:
        """Notes a class that inherits from a layer; the base that it has in the output."""
        base = flax_class_of(layer)
        methods = [s for s in suites.suite_of(node.body.body) if isinstance(s, cst.FunctionDef)]
        init = next((method for method in methods if method.name.value == "__init__"), None)
        alone = init is None or (len(methods) == 1 and handed_on(init) is not None)
        if base is None or not alone or len(node.bases) > 1:
            raise Unsupported("MIG201", f"{node.name.value} inherits from {nodes.code(node.bases[0].value)}")
        name = inside(self.unit.scope, node.name.value)
        facts = self.script.classes.setdefault(name, ClassFacts(name, node))
        facts.extends, facts.hands_on = layer.torch, init
        return with_snippets(self, base if init is None else self.base_made(layer, init), layer.snippets)

    def base_made(self, layer: Layer, init: cst.FunctionDef) -> Expr:
        """The Flax class of the layer that a constructor makes, whatever its arguments are."""
        call = handed_on(init)
        assert call is not None
        known = dict(self.env.kinds)
        self.env.kinds |= {parameter.name.value: Number() for parameter in init.params.params}
        try:
            made = self.construct_layer(layer.torch, call)
        finally:
            self.env.kinds = known
        assert isinstance(made.node, cst.Call)
        return made.node.func

    def without_constructor(self, node: cst.ClassDef) -> cst.ClassDef:
        """Such a class as its layer takes the arguments itself."""
        facts = self.script.classes[inside(self.unit.scope, node.name.value)]
        if facts.hands_on is None:
            return node
        known = facts.spelled_out.get((node, "bare"))
        if known is None:
            body = [part for part in suites.suite_of(node.body.body) if part is not facts.hands_on]
            known = node.with_changes(body=suites.block(body))
            facts.spelled_out[node, "bare"] = known
            self.unit.stands_for(known, node)
        return known

    def construct_handed_on(self, node: cst.Call, callee: Value, facts: ClassFacts, init: cst.FunctionDef) -> Value:
        """`TokenEmbedding(size)` of a class that adds a constructor alone: the layer, under the name of the class."""
        if not self.cls and not self.building:
            raise Unsupported("MIG201", f"{nodes.code(node)} is no part of a module")
        layers = as_of_layer(node, init)
        if layers is None:
            raise Unsupported("MIG201", f"{nodes.code(node)}: arguments that cannot be followed")
        made = self.construct_layer(facts.extends, layers)
        assert isinstance(made.node, cst.Call)
        return replace(made, node=made.node.with_changes(func=callee.node))

    def construct_extended(self, node: cst.Call, callee: Value, facts: ClassFacts) -> Value:
        """`LayerNorm(width)`: the arguments of the Flax layer, given to the user's class."""
        if facts.hands_on is not None:
            return self.construct_handed_on(node, callee, facts, facts.hands_on)
        made = self.construct_layer(facts.extends, node)
        assert isinstance(made.kind, Module) and isinstance(made.node, cst.Call)
        (option,) = made.kind.options
        assert isinstance(option, LayerNode)
        base = flax_class_of(TABLE[facts.extends])
        if base is None or nodes.code(made.node.func) != nodes.code(
            with_snippets(self, base, TABLE[facts.extends].snippets)
        ):
            raise Unsupported(
                "MIG203", f"{nodes.code(node)}: with these arguments {facts.extends} is another layer in Flax"
            )
        for weight in option.weights:
            known = facts.parameters.get(weight.torch)
            facts.parameters[weight.torch] = weight if known is None else _covering(known, weight)
        facts.buffers |= dict(option.unused)
        own = {"training": self.mode_expression(facts.name)} if self.script.trains(facts.name) else {}
        call = made.node.with_changes(func=callee.node, args=nodes.extended(made.node.args, own))
        if not self.cls and not self.building:
            return Value(call, Model(facts.name))
        return Value(call, Module((ClassNode(facts.name),)))

    def super_layer(self, node: cst.Call, facts: ClassFacts) -> Value:
        """`super().forward(x)`: what the layer computes."""
        layer = TABLE[facts.extends]
        layout = layer.layout.value
        passage = Passage(layout, layout, layer.rank if layer.layout is Layout.LAST else 0)
        callee = Value(nodes.expression("super().__call__"))
        return self.layer_call(node, callee, Module((LayerNode(layer.torch, (), (), passage, layer.returns, ()),)))

    def own_form(self, name: str, node: cst.Call) -> Value | None:
        """`F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)` in such a class, which is what its
        layer computes; None for other calls."""
        facts = self.script.classes.get(self.cls)
        function, *settings = OWN_FORMS.get(facts.extends, ("",)) if facts is not None else ("",)
        if facts is None or function != name or self.context != "forward" or any(arg.star for arg in node.args):
            return None
        given = dict(zip(argument_names(node.args, ["input", *settings]), node.args, strict=True))
        if given.keys() != {"input", *settings} or any(nodes.dotted(given[s].value) != f"self.{s}" for s in settings):
            return None
        return self.super_layer(node.with_changes(args=[cst.Arg(given["input"].value)]), facts)


# How the function of a layer is called with its own settings and weights.
OWN_FORMS = {
    "torch.nn.LayerNorm": ("torch.nn.functional.layer_norm", "normalized_shape", "weight", "bias", "eps"),
    "torch.nn.GroupNorm": ("torch.nn.functional.group_norm", "num_groups", "weight", "bias", "eps"),
    "torch.nn.Linear": ("torch.nn.functional.linear", "weight", "bias"),
}


def _covering(one: BoundWeight, other: BoundWeight) -> BoundWeight:
    """One weight for two that differ in what is known of them alone."""
    shape = one.shape if one.shape == other.shape else None
    return replace(one, shape=shape, optional=one.optional or other.optional)
