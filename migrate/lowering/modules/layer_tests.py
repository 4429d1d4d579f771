"""Which layer a module is, asked in a forward pass: `if isinstance(layer, nn.Linear)`.

The same is asked of Flax's class, where that tells the layers apart; below the test the module is known to be one.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import MOVED, ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import Module, ModuleClass, Number
from migrate.known.qualified import spelled
from migrate.layers.table import TABLE
from migrate.lowering.expressions.elements import children_of
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.targets.linen import flax_class_of

_LISTS = {"torch.nn.Sequential": "/layers_", "torch.nn.ModuleList": "_"}
_INSIDE = ("forward", "setup")
_INHERITING = {"torch.nn.ReLU6": "torch.nn.Hardtanh"} | {
    f"torch.nn.ZeroPad{n}d": f"torch.nn.ConstantPad{n}d" for n in (1, 2, 3)
}


class LayerTests(Scope):
    """`isinstance` of a module inside a module."""

    def layer_test(self, node: cst.Call) -> Value | None:
        """The test, True or False where it is decided; None where it asks for something else."""
        asked = self.asked_layers(node)
        if asked is None:
            return None
        value, classes = asked
        assert isinstance(value.kind, Module)
        those, others = self.told_apart(value.kind, classes)
        if those and not others and self.may_be_none(node.args[0].value):
            return self.unless_none(node, value)
        return self.among(node, value, those, others)

    def among(self, node: cst.Call, value: Value, those: Sequence[Node], others: Sequence[Node]) -> Value:
        """Whether a module is one of those that it may be, which a call asks in torch's words."""
        if not those or not others:
            return Value(nodes.name(str(bool(those))), Number())
        given = list(dict.fromkeys(nodes.code(self.class_in_flax(option, node)) for option in those))
        others_too = [nodes.code(self.class_in_flax(one, node)) for one in others if not _is_function(one)]
        if set(given) & set(others_too):
            raise Unsupported("MIG304", f"{nodes.code(node)}: {given[0]} is several layers of torch's")
        made = [nodes.expression(text) for text in given]
        written = made[0] if len(made) == 1 else nodes.tuple_of(made)
        if nodes.dotted(node.func) == "isinstance" and not any(isinstance(option, LayerNode) for option in those):
            written = node.args[1].value
        return Value(nodes.call("isinstance", value.node, written), Number())

    def may_be_none(self, node: Expr) -> bool:
        """Whether what is known to be a module, where it is anything, may be None: an attribute that an argument
        decides, or an argument."""
        name = node.value if isinstance(node, cst.Name) else ""
        meant = self.env.definitions.get(name, node) if name else node
        path = nodes.dotted(meant) or ""
        facts = self.script.classes.get(self.cls)
        if facts is not None and path.startswith("self.") and path.count(".") == 1:
            return isinstance(facts.children.get(path.removeprefix("self.")), ChoiceNode)
        function = self.script.functions.get(self.scope)
        given = () if function is None else (*function.node.params.params, *function.node.params.kwonly_params)
        default = next((one.default for one in given if one.name.value == name and one.default is not None), None)
        return default is not None and nodes.is_literal(default, None)

    def unless_none(self, node: cst.Call, value: Value) -> Value:
        """`isinstance(self.first, nn.Linear)` of what is such a layer, or None."""
        if self.context == "setup":
            raise Unsupported("MIG304", f"{nodes.code(node)}: an argument decides whether it is there")
        return Value(nodes.parenthesized(nodes.expression("{x} is not None", x=value.node)), Number())

    def narrowed(self, test: Expr) -> tuple[str, Module, Module] | None:
        """The name that a test tells something of, and what it is where the test holds and where it does not."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            found = self.narrowed(test.expression)
            return None if found is None else (found[0], found[2], found[1])
        asked = self.asked_layers(test) if isinstance(test, cst.Call) else None
        name = test.args[0].value if isinstance(test, cst.Call) and asked is not None else None
        if asked is None or not isinstance(name, cst.Name) or not isinstance(asked[0].kind, Module):
            return None
        those, others = self.told_apart(asked[0].kind, asked[1])
        return (name.value, Module(those), Module(others)) if those and others else None

    def asked_layers(self, node: cst.Call) -> tuple[Value, list[str]] | None:
        """The module and the classes, of torch's and the user's, in `isinstance(module, classes)`; None for others."""
        if self.context not in _INSIDE or nodes.dotted(node.func) != "isinstance" or len(node.args) != 2:
            return None
        given = node.args[1].value
        parts = nodes.elements(given) if isinstance(given, cst.Tuple) else [given]
        named = [self.class_named(part) for part in parts]
        classes = [name for name in named if name is not None]
        value = self.expr(node.args[0].value) if len(classes) == len(named) else None
        return (value, classes) if value is not None and isinstance(value.kind, Module) else None

    def class_named(self, node: Expr) -> str | None:
        """The layer, or the class of the user's, that an expression names; None for others."""
        kind = self.kind_of(node)
        name = kind.cls if isinstance(kind, ModuleClass) else self.torch_name(node)
        known = isinstance(kind, ModuleClass) or name in TABLE or name in _LISTS
        return name if known else None

    def told_apart(self, kind: Module, classes: list[str]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """The modules that are of one of the classes, and the others."""
        those = tuple(option for option in kind.options if any(self.is_of(option, name) for name in classes))
        return those, tuple(option for option in kind.options if option not in those)

    def is_of(self, option: Node, name: str) -> bool:
        """Whether a module is of a class."""
        if isinstance(option, ListNode) and option.keys == MOVED:
            return any(self.is_of(child, name) for child in children_of(option))
        if isinstance(option, ListNode):
            return _LISTS.get(name) == option.infix and (option.infix.startswith("/") or not option.keys)
        if isinstance(option, LayerNode):
            return name in (option.torch, _INHERITING.get(option.torch), option.torch.replace(".Lazy", "."))
        facts = self.script.classes.get(option.cls) if isinstance(option, ClassNode) else None
        if facts is None:
            return False
        return name in (facts.name, facts.extends) or any(self.is_of(ClassNode(base), name) for base in facts.bases)

    def class_in_flax(self, option: Node, node: cst.Call) -> Expr:
        """What a module is an instance of in the output."""
        if isinstance(option, ListNode) and option.keys == MOVED:
            raise Unsupported("MIG304", f"{nodes.code(node)}: the layer is one of several in a row in Flax")
        if isinstance(option, ListNode) and option.named:
            return nodes.name("NamedSequential")
        if isinstance(option, ListNode):
            return nodes.expression("nn.Sequential" if option.infix.startswith("/") else "(list, tuple)")
        if isinstance(option, ClassNode):
            return nodes.expression(spelled(option.cls))
        found = flax_class_of(TABLE[option.torch]) if isinstance(option, LayerNode) and option.torch in TABLE else None
        if found is None:
            raise Unsupported("MIG304", f"{nodes.code(node)}: the layer is a function in Flax")
        return found


def _is_function(option: Node) -> bool:
    return isinstance(option, LayerNode) and (option.torch not in TABLE or flax_class_of(TABLE[option.torch]) is None)
