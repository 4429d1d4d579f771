"""Whether a module has an attribute: `hasattr(layer, "weight")`, `hasattr(model, "fc")`.

Flax's layers have their weights elsewhere and their settings under other names, and a module that is not bound has no
parts. What torch would say is told by the layer, or by the class.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode, ListNode, Node
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Model, Module, Number, SelfModule
from migrate.layers.table import TABLE
from migrate.lowering.modules.layer_tests import LayerTests
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.targets import linen

_NO_ATTRIBUTES = ("device", "dtype")  # arguments of torch's constructors


class AttributesAsked(LayerTests):
    """`hasattr` of modules."""

    def attribute_test(self, node: cst.Call) -> Value | None:
        """The test as the output has it; None where it asks something of other values."""
        name = nodes.literal(node.args[1].value) if len(node.args) == 2 else ...
        if not isinstance(name, str) or any(arg.keyword is not None or arg.star for arg in node.args):
            return None
        value = self.expr(node.args[0].value)
        if isinstance(value.kind, SelfModule) and self.cls:
            told = self._told_of_itself(self.script.classes[self.cls], name)
            return self._of_object(node, value, self.script.classes[self.cls], name, told)
        if isinstance(value.kind, Model) and value.kind.cls in self.script.classes:
            told = self._told(self.script.classes[value.kind.cls], name)
            if told is None:
                raise Unsupported("MIG304", f"{nodes.code(node)}: a model that is not bound has no attributes in Flax")
            return Value(nodes.name(str(told)), Number())
        return self._of_part(node, value, name) if isinstance(value.kind, Module) else None

    def _of_object(self, node: cst.Call, value: Value, facts: ClassFacts, name: str, told: bool | None) -> Value:
        """Of the object itself, or of one of a class of the script's: its attributes have the names that they have."""
        if told is not None:
            return Value(nodes.name(str(told)), Number())
        own = cst.SimpleString(f'"{facts.renamed.get(name, name)}"')
        return Value(node.with_changes(args=nodes.arguments([value.node, own])), Number())

    def _of_part(self, node: cst.Call, value: Value, name: str) -> Value:
        assert isinstance(value.kind, Module)
        options = value.kind.options
        only = options[0] if len(options) == 1 else None
        if isinstance(only, ListNode) and (only.named or (only.infix == "_" and only.keys)):
            held = "{x}" if only.infix == "_" else "{x}.layers"
            made = nodes.expression(f'"{name}" in {held}', x=value.node)
            return Value(nodes.parenthesized(made), Number())
        if isinstance(only, ClassNode):
            facts = self.script.classes[only.cls]
            return self._of_object(node, value, facts, name, self._told(facts, name))
        told = {option: self._has(option, name) for option in options}
        if None in told.values():
            raise Unsupported("MIG304", f"{nodes.code(node)}: an argument decides whether it is there")
        having = tuple(option for option in options if told[option])
        return self.among(node, value, having, tuple(option for option in options if not told[option]))

    def _has(self, option: Node, name: str) -> bool | None:
        """Whether a module has an attribute in torch; None where that is told as it is made."""
        if isinstance(option, ClassNode):
            return self._told(self.script.classes[option.cls], name)
        if isinstance(option, LayerNode) and option.torch in TABLE:
            layer = TABLE[option.torch]
            settings = {one.name for one in linen.layer_signature(layer)} - set(_NO_ATTRIBUTES)
            return name in settings | {one.torch for one in layer.weights} | OF_EVERY_MODULE
        if isinstance(option, ListNode):
            return name in OF_EVERY_MODULE or (name in option.keys if not option.named else None)
        return None

    def _told(self, facts: ClassFacts, name: str) -> bool | None:
        """Whether the modules of a class have an attribute; None where some may, or one has it under another name."""
        certain = name in facts.certain and name not in facts.emptied
        if certain or facts.method(name) is not None or name in OF_EVERY_MODULE:
            return True
        known = {*facts.seen, *facts.attributes, *facts.children, *facts.parameters, *facts.buffers}
        if name in known or facts.is_borrowed(name):
            return None
        return None if facts.bases else False

    def _told_of_itself(self, facts: ClassFacts, name: str) -> bool | None:
        """The same of `self`, which may be of any class that inherits this method."""
        heirs = self.script.heirs(facts.name)
        asked = heirs if heirs and self.script.only_base(facts.name) else [facts, *heirs]
        told = {self._told(one, name) for one in asked}
        return told.pop() if len(told) == 1 else None


OF_EVERY_MODULE = frozenset(
    {"training", "forward", "parameters", "named_parameters", "modules", "named_modules", "children", "named_children"}
    | {"buffers", "named_buffers", "state_dict", "load_state_dict", "to", "cuda", "cpu", "half", "float", "double"}
    | {"bfloat16", "type", "apply", "train", "eval", "zero_grad", "requires_grad_", "add_module", "register_module"}
    | {"register_buffer", "register_parameter", "register_forward_hook", "register_forward_pre_hook", "get_submodule"}
    | {"get_parameter", "get_buffer", "compile", "extra_repr", "share_memory"}
)
