"""Submodules of a model that are called from outside of it: `model.encoder(x)`."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode, ListNode
from migrate.known.kinds import UNKNOWN, Model, Module
from migrate.known.script import classes_in, layers_in
from migrate.known.states import MODE_IS_A_FIELD
from migrate.layers.table import TABLE
from migrate.lowering.expressions.torch_calls import TorchCalls
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.state_dicts import StateDicts
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


class CalledParts(TorchCalls, StateDicts):
    """Calls of submodules with the weights of their model."""

    def differs_in_training(self, kind: Module) -> bool:
        """Whether a submodule computes something else in train mode."""
        layers = [layer.torch for option in kind.options for layer in layers_in(option)]
        classes = [cls for option in kind.options for cls in classes_in(option)]
        return any(map(self.script.trains, classes)) or any(name in TABLE and TABLE[name].trains for name in layers)

    def stays_in_eval(self) -> bool:
        """Whether a part that this constructor puts into eval mode stays there, whatever mode the whole is in: nothing
        tells a model that it is in to train."""
        retrained = [self.script.classes[cls] for cls in self.script.put_in_train if cls in self.script.classes]
        inside = {one.name for facts in retrained for one in self.script.classes_inside(facts)}
        return self.context == "setup" and bool(self.cls) and self.cls not in inside

    def keeps_stats(self, kind: Module) -> bool:
        """Whether a submodule keeps batch statistics."""
        layers = [TABLE.get(layer.torch) for option in kind.options for layer in layers_in(option)]
        weights = [weight for layer in layers if layer is not None for weight in layer.weights]
        classes = [cls for option in kind.options for cls in classes_in(option)]
        return any(map(self.script.has_stats, classes)) or any(one.collection == "batch_stats" for one in weights)

    def part_call(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value | None:
        """`model.bind(variables).encoder(x)`; None where the attribute is no submodule."""
        model, attribute = base.kind, func.attr.value
        assert isinstance(model, Model)
        part = self.part_at(model, attribute)
        if part is None:
            return None
        if model.place is None:
            raise Unsupported("MIG301", f"{nodes.code(func)}: of a model that has no name of its own")
        self.refuse_forms(func, part)
        self.record_method(model, node, attribute)
        name, mode = self.name_of_part(model, attribute), self.mode_of_part(model, part)
        if self.keeps_stats(part) and self.script.changes_state(model.cls, mode):
            return self.changing_part(node, base, part, name, mode)
        return self.layer_call(node, Value(cst.Attribute(self.bound(base, mode), name), part), part)

    def part_method(self, node: cst.Call, func: cst.Attribute) -> Value | None:
        """`model.bind(variables).encoder.encode(x)`, a method of the script's of a part; None of other calls."""
        owner = func.value if isinstance(func.value, cst.Attribute) else None
        model = self.kind_of(owner.value) if owner is not None else None
        if owner is None or not isinstance(model, Model) or model.place is None or func.attr.value == "forward":
            return None
        attribute = owner.attr.value
        part = self.part_at(model, attribute)
        if part is None:
            return None
        mode = self.mode_of_part(model, part)
        if self.keeps_stats(part) and self.script.changes_state(model.cls, mode):
            return None
        made = cst.Attribute(self.bound(self.expr(owner.value), mode), self.name_of_part(model, attribute))
        called = self.submodule_method(node, Value(cst.Attribute(made, func.attr)), part, func.attr.value)
        if called is not None:
            self.record_method(model, node, attribute)
        return called

    def part_at(self, model: Model, attribute: str) -> Module | None:
        """The submodule that a model has as an attribute."""
        facts = self.script.classes.get(model.cls)
        part = facts.attributes.get(attribute, UNKNOWN) if facts is not None else UNKNOWN
        return part if isinstance(part, Module) else None

    def name_of_part(self, model: Model, attribute: str) -> cst.Name:
        """What such an attribute is called in Flax."""
        return cst.Name(self.script.classes[model.cls].renamed.get(attribute, attribute))

    def mode_of_part(self, model: Model, part: Module) -> str:
        """The mode in which a submodule is called, where that matters."""
        return self.mode(model) if self.differs_in_training(part) else "eval"

    def bound(self, base: Value, mode: str) -> Expr:
        """A model with its weights, whose parts may be called."""
        model = base.kind
        assert isinstance(model, Model)
        streams = self.streams(model, mode)
        rngs = {"rngs": nodes.dict_of(streams)} if streams else {}
        bind = cst.Attribute(self.applied(base.node, model, mode), cst.Name("bind"))
        return nodes.call(bind, self.variables(model), **rngs)

    def layers_of(self, model: Value) -> Value:
        """`net.bind(variables).layers`."""
        kind = model.kind
        assert isinstance(kind, Model)
        facts = self.script.classes.get(kind.cls)
        row = facts.children.get("") if facts is not None and facts.inline else None
        if not isinstance(row, ListNode) or row.named or not self._takes_axes_as_they_are(row):
            raise Unsupported("MIG301", f"{nodes.code(model.node)} is taken apart: its class in Flax lists no layers")
        layers = Module((replace(row, infix="_", keys=()),))
        if kind.place is None:
            raise Unsupported("MIG301", f"{nodes.code(model.node)} is taken apart, and has no name of its own")
        if self.context not in HOST_CONTEXTS or self.under_jit:
            raise Unsupported("MIG301", f"{nodes.code(model.node)} is taken apart where jit traces")
        if self.differs_in_training(layers):
            raise Unsupported("MIG301", f"{nodes.code(model.node)} is taken apart: {MODE_IS_A_FIELD}")
        return Value(cst.Attribute(self.bound(model, "eval"), cst.Name("layers")), layers)

    def _takes_axes_as_they_are(self, row: ListNode) -> bool:
        """Whether all layers of a row are torch's, between which no axes move."""
        return all(isinstance(one, LayerNode) and one.torch and one.passage.entry == "any" for one in row.children)

    def changing_part(self, node: cst.Call, base: Value, part: Module, name: cst.Name, mode: str) -> Value:
        """The same of one that changes batch statistics, in statements of its own."""
        model = base.kind
        assert isinstance(model, Model) and model.place is not None
        if self.nested:
            raise Unsupported("MIG401", "batch statistics that change inside a comprehension or a lambda")
        value = self.layer_call(node, Value(name, part), part)
        called = value.node
        if not isinstance(called, cst.Call) or not isinstance(called.func, cst.Name):
            raise Unsupported("MIG302", f"{nodes.code(node.func)}: batch statistics of a part whose axes are moved")
        inputs = "*inputs, **options" if any(arg.keyword for arg in called.args) else "*inputs"
        method = nodes.expression(f"lambda module, {inputs}: module.{name.value}({inputs})")
        applied = self.plain_apply(base.node, model, mode, called.args, self.streams(model, mode))
        applied = applied.with_changes(args=nodes.extended(applied.args, {"method": method}))
        return replace(value, node=self.mutating_apply(model.place, applied))

    @staticmethod
    def refuse_forms(func: cst.Attribute, part: Module) -> None:
        """Declines layers whose form goes by where they are called."""
        for option in part.options:
            if isinstance(option, LayerNode) and option.torch in TABLE and TABLE[option.torch].elsewhere:
                raise Unsupported("MIG302", f"{nodes.code(func)}: {option.torch} called from outside of its model")
