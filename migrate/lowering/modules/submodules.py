"""Modules inside other modules, seen from outside: `self.encoder.norm(x)`, `self.conv.weight.dtype`."""

from __future__ import annotations

import functools
from typing import TypeGuard

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import UNKNOWN, Device, DType, Items, Kind, Module, Never, Number, join
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import Arguments, placed
from migrate.lowering.modules.layer_weights import LayerWeights
from migrate.lowering.modules.shown_outside import is_setting, read_outside, unseen
from migrate.lowering.unit import known
from migrate.rules.rule import Value, signature
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every
from migrate.targets import linen

_BY_AXIS = ("kernel_size", "stride", "padding", "dilation", "output_padding")  # convolutions keep one for each axis


class Submodules(Arguments, LayerWeights):
    """Attributes and methods of submodules."""

    def submodule_attribute(self, node: cst.Attribute, base: Value, owner: Module, attribute: str) -> Value:
        """`self.encoder.norm`: what all classes that the module may be have under this name."""
        facts = [self.script.classes.get(one.cls) for one in owner.options if isinstance(one, ClassNode)]
        known_to = [one for one in facts if one is not None and not one.extends]
        field = linen.field_of(owner, attribute)
        if field:
            return Value(node.with_changes(value=base.node, attr=cst.Name(field)), Number())
        if any(isinstance(one, LayerNode) and attribute in _settings(one.torch) for one in owner.options):
            return self.setting_of_layer(node)
        weight = self.layer_weight(node, base, owner)
        if weight is not None:
            return weight
        inside = [TABLE[one.torch].inside.get(attribute) for one in owner.options if _is_in_table(one)]
        if len(inside) == len(owner.options) and None not in inside:
            made = tuple(LayerNode(name) for name in inside if name is not None)
            return Value(node.with_changes(value=base.node), Module(made))
        if not known_to or len(known_to) < len(owner.options):
            return Value(node.with_changes(value=nodes.parenthesized(base.node)), UNKNOWN)
        kinds = [known(one.seen.get(attribute, one.attributes.get(attribute))) for one in known_to]
        names = {one.renamed.get(attribute, attribute) for one in known_to}
        if len(names) > 1:
            raise Unsupported(
                "MIG201", f"{nodes.code(node)} has several names in the output: {', '.join(sorted(names))}"
            )
        made = node.with_changes(value=base.node, attr=cst.Name(names.pop()))
        kind = functools.reduce(join, kinds)
        root = nodes.root(base.node)
        if isinstance(kind, Module) and self.is_made_here(root) and not self.script.still_open():
            raise Unsupported("MIG201", f"{nodes.code(node)}: a part of a module that Flax has not set up yet")
        if self.context == "setup" and is_setting(kind) and not (isinstance(root, cst.Name) and root.value == "self"):
            for each in known_to:  # it is part of nothing yet, and Flax has not run its setup
                holder = read_outside(self.script, each, attribute)
                if holder is not None:
                    raise unseen(node, holder)
        return Value(made, kind)

    def is_made_here(self, root: cst.CSTNode) -> bool:
        """Whether an expression is a module that a constructor, or a function that makes parts, has made, and neither
        kept nor taken apart."""
        building = not self.cls and self.facts is not None and self.facts.builds
        if self.context != "setup" and not building:
            return False
        if not isinstance(root, cst.Name) or root.value == "self":
            return isinstance(root, cst.Call)
        method = self.script.classes[self.cls].method(self.scope.rpartition(".")[2]) if self.cls else None
        method = self.facts.node if self.facts is not None else method
        loops = [] if method is None else every(method, (cst.For, cst.CompFor))
        if any(root.value in usage.target_names(loop.target) for loop in loops):
            return False  # what it goes over is kept by then, or refused where it is taken apart
        made = self.env.definitions.get(root.value)
        return isinstance(made, cst.Call) and root.value not in self.taken_apart_here()

    def setting_of_layer(self, node: cst.Attribute) -> Value:
        """`self.fc.in_features`, which Flax's layers do not keep: the number that the constructor gave, the field that
        it took, or torch's default."""
        layer, given = self.settings_of_layer(node.value)
        if layer is not None:
            value, facts = given.get(node.attr.value), self.script.classes[self.cls]
            axes = layer.rank - 2 if "Conv" in layer.torch and node.attr.value in _BY_AXIS else 0
            if value is not None and isinstance(nodes.literal(value), int | float):
                kept = nodes.parenthesized(nodes.tuple_of([value] * axes)) if axes else value
                return Value(kept, Items(None, Number(), "tuple") if axes else Number())
            if isinstance(value, cst.Name) and value.value in set(facts.fields) - facts.rebinds and not axes:
                return Value(cst.Attribute(nodes.name("self"), value), facts.field_kinds.get(value.value, UNKNOWN))
        raise Unsupported("MIG301", f"{nodes.code(node)}: a setting that Flax's layer does not keep")

    def submodule_method(self, node: cst.Call, func: Value, owner: Module, name: str) -> Value | None:
        """A method of the user's, `self.encoder.encode(x)`; None for anything else."""
        classes = [option.cls for option in owner.options if isinstance(option, ClassNode)]
        methods = [self.script.functions.get(f"{cls}.{name}") for cls in classes]
        if name == "forward" or not methods or len(methods) < len(owner.options):
            return None
        values = [self.array(arg.value) for arg in node.args]
        result: Kind = Never()
        for cls, method in zip(classes, methods, strict=True):
            if method is None or method.decorators & {"staticmethod", "classmethod", "property"}:
                return None
            if name in self.script.classes[cls].host_methods:
                raise Unsupported("MIG301", f"{nodes.code(node)}: a part of a Flax module has no weights of its own")
            self.script.classes[cls].reached.add(name)
            self.pass_kinds(method, node.args, values)
            result = join(result, method.result)
        called = node.with_changes(func=func.node, args=placed(node.args, values))
        return self.as_decorated(Value(called, result), methods)

    @staticmethod
    def refuse_of_layer(node: cst.Call | cst.Attribute, owner: Module) -> None:
        """Declines what a layer of torch's has and Flax's has not: methods, hooks, settings."""
        layer = next((one.torch for one in owner.options if isinstance(one, LayerNode)), None)
        name = layer or ("torch.nn.Module" if any(isinstance(one, ListNode) for one in owner.options) else None)
        if name is not None:
            raise Unsupported("MIG301", f"{nodes.code(node)}: Flax has nothing like it in the place of {name}")

    def refuse_sizes_of_weight(self, node: cst.Attribute) -> None:
        """Declines `self.conv.weight.shape` in a constructor, which has no weights in Flax."""
        if self.context == "setup" and node.attr.value in ("shape", "size", "numel", "dim") and self.is_of_layer(node):
            raise Unsupported("MIG302", f"{nodes.code(node)}: what the layer is given is not known here")

    def is_of_layer(self, node: cst.Attribute) -> bool:
        """Whether an attribute is one of a weight of a layer: `self.conv.weight.dtype`."""
        weight = node.value
        if not isinstance(weight, cst.Attribute) or weight.attr.value not in ("weight", "bias"):
            return False
        return isinstance(self.expr(weight.value).kind, Module)

    def weight_type(self, node: cst.Attribute) -> Value | None:
        """`self.conv.weight.dtype`: weights are made in float32; None of anything but a weight of a layer."""
        if not self.is_of_layer(node):
            return None
        if node.attr.value == "device":
            return Value(nodes.expression("jax.default_backend()"), Device())
        return Value(nodes.expression("jnp.float32"), DType())


def _is_in_table(node: Node) -> TypeGuard[LayerNode]:
    return isinstance(node, LayerNode) and node.torch in TABLE


@functools.cache
def _settings(torch: str) -> frozenset[str]:
    """The arguments of a torch layer, which it keeps as attributes; those of weights aside."""
    layer = TABLE.get(torch)
    names = {parameter.name for parameter in signature(layer.signature)} if layer is not None else set()
    return frozenset(names - {"bias", "weight"})
