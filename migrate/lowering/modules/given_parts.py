"""Modules that are made outside of the class which holds them: `VGG(make_layers(cfg))`, `Block(attention, width)`.

They are parts, not models: their weights are made with those of the module that they are given to. They are made in
eval mode, and a copy of that module in train mode has copies of them in train mode.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode
from migrate.known.facts import ClassFacts, FunctionFacts
from migrate.known.kinds import UNKNOWN, Function, Model, Module, ModuleClass
from migrate.known.script import layers_in
from migrate.layers.layer import Layer
from migrate.layers.table import TABLE
from migrate.lowering.initial.told_fields import ToldFields
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_ROW = "torch.nn.Sequential"
_CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")


class GivenParts(ToldFields):
    """Arguments of constructors that are modules."""

    @property
    def building(self) -> bool:
        """Whether this is the body of a function that makes parts of modules."""
        return not self.cls and self.facts is not None and self.facts.builds

    def given(self, node: Expr, cls: str, call: cst.Call | None = None) -> Value:
        """An argument of the constructor of a class, in that call where it is at hand."""
        if self.cls or self.building or self.context not in HOST_CONTEXTS:
            return self.expr(node)
        outer, self.holder, self.holding = (self.holder, self.holding), cls, call
        try:
            value = self.expr(node)
        finally:
            self.holder, self.holding = outer
        if isinstance(value.kind, Module):
            self.script.classes[cls].holds_parts = True
            if cls in self.script.half:
                raise Unsupported("MIG203", f"{nodes.code(node)} makes layers outside the class, under autocast")
        return value

    def holder_of(self, target: cst.CSTNode, value: Expr) -> str:
        """The class whose constructor gets a module that is assigned to a name, where nothing else reads that; ""
        elsewhere."""
        if not isinstance(target, cst.Name) or self.cls or self.building or self.context not in HOST_CONTEXTS:
            return ""
        if not isinstance(value, cst.Call) or not self.makes_part(value):
            return ""
        if target.value in self.taken_by:
            return self.taken_by[target.value]
        scope = self.own_body
        itself: list[str] = []
        copied: list[str] = []
        for call in every(scope, cst.Call):
            kind = self.kind_of(call.func)
            if not isinstance(kind, ModuleClass):
                continue
            for given in self.parts_in(call):
                original = self.deep_copied(given)
                if nodes.dotted(original or given) == target.value:
                    (itself if original is None else copied).append(kind.cls)
        if len(itself) + len(copied) != usage.loads(scope).count(target.value):
            return ""
        if len(itself) > 1:
            self.script.around_models |= set(itself)
            raise Unsupported("MIG201", f"{target.value} is given to several modules, which share its weights")
        return (itself + copied)[0] if itself + copied else ""

    def parts_in(self, call: cst.Call) -> Iterator[Expr]:
        """The arguments of a call, with those of a row of layers among them."""
        for arg in call.args:
            yield arg.value
            if isinstance(arg.value, cst.Call) and self.torch_name(arg.value.func) == _ROW:
                yield from self.parts_in(arg.value)

    def goes_into_row(self, name: str, value: Expr | None) -> bool:
        """Whether a name stands for a module that one `net = nn.Sequential(b1, b2)` of this block takes, and nothing
        else reads: it is written out there."""
        if self.cls or self.building or self.context not in HOST_CONTEXTS or self.loops or self.conditions:
            return False
        if not isinstance(value, cst.Call) or not self.makes_part(value):
            return False
        scope = self.own_body
        read, bound = usage.loads(scope), usage.stores(scope)
        once = read.count(name) == 1 == bound.count(name) and all(bound.count(one) < 2 for one in usage.loads(value))
        return once and name in {arg.value.value for arg in self.in_rows(scope) if isinstance(arg.value, cst.Name)}

    def in_rows(self, scope: cst.CSTNode) -> list[cst.Arg]:
        """What calls of `nn.Sequential` take whose value has a name."""
        named = [one.value for one in every(scope, cst.Assign) if isinstance(one.targets[0].target, cst.Name)]
        rows = [call for call in named if isinstance(call, cst.Call) and self.torch_name(call.func) == _ROW]
        return [arg for row in rows for arg in row.args]

    def row_written_out(self, node: Expr) -> Expr:
        """`nn.Sequential(b1, b2)` with the modules that those names stand for in their places."""
        if not isinstance(node, cst.Call) or self.torch_name(node.func) != _ROW:
            return node
        meant = {name: self.env.definitions.get(name) for name in usage.loads([arg.value for arg in node.args])}
        inside = {name: value for name, value in meant.items() if value and self.goes_into_row(name, value)}
        return node.with_changes(args=[nodes.substituted(arg, inside) for arg in node.args]) if inside else node

    def makes_part(self, call: cst.Call) -> bool:
        """Whether a call makes a module: a layer, one of the user's, or what a builder returns."""
        kind = self.kind_of(call.func)
        facts = self.script.functions[kind.name] if isinstance(kind, Function) else None
        if facts is None:
            return self.constructs(call)
        maybe = facts.result == UNKNOWN or isinstance(facts.result, Module | Model)
        return maybe and (facts.builds or self.makes_modules(facts))

    def makes_modules(self, facts: FunctionFacts) -> bool:
        """Whether a function makes modules, told from what it calls."""
        reader = self.in_file_of(facts.qualname)
        for call in usage.calls(facts.node):
            kind = reader.kind_of(call.func)
            if reader.constructs(call) or (isinstance(kind, Function) and self.script.functions[kind.name].builds):
                return True
        return False

    def constructs(self, call: cst.Call) -> bool:
        """Whether a call is of a class of modules."""
        name = self.torch_name(call.func) or ""
        return name in TABLE or name in _CONTAINERS or isinstance(self.kind_of(call.func), ModuleClass)

    def deep_copied(self, node: Expr) -> Expr | None:
        """What `copy.deepcopy(x)` copies, `x`; None of other expressions."""
        if not isinstance(node, cst.Call) or len(node.args) != 1:
            return None
        meant = (
            self.env.definitions.get(node.func.value) if isinstance(node.func, cst.Name) else None
        )  # c = copy.deepcopy
        return node.args[0].value if nodes.dotted(meant or node.func) in ("copy.deepcopy", "deepcopy") else None

    def initializers_outside(self, cls: str, layer: Layer) -> dict[str, Expr]:
        """The initialisers that a class gives a layer which is made outside of it, where a field does not decide them
        or always has its default."""
        if self.replacing:  # the constructor has run by then
            return {}
        facts = self.script.classes[cls]
        init = facts.method("__init__")
        defaults = {p.name.value: p.default for p in init.params.params if p.default} if init is not None else {}
        given = {field for fields in facts.given.values() for field in fields}
        made: dict[str, Expr] = {}
        for weight, asked in facts.initializers.get(layer.torch, {}).items():
            test = (nodes.dotted(asked.test) or "") if isinstance(asked, cst.IfExp) else ""
            field = test.removeprefix("self.")
            holds = None if field in given else nodes.literal(defaults.get(field))
            if isinstance(asked, cst.IfExp) and isinstance(holds, bool):
                asked = asked.body if holds else asked.orelse
            made |= {} if nodes.is_literal(asked, None) else {weight: self.in_terms_told(cls, asked)}
        return made


def own_given(facts: ClassFacts, kind: Module) -> None:
    """What the layers of a part do in train mode, the class that holds it does."""
    layers = [layer for option in kind.options for layer in layers_in(option) if layer.torch in TABLE]
    facts.own_trains |= any(TABLE[layer.torch].trains for layer in layers)
    facts.own_stats |= any(map(_keeps_statistics, layers))
    if any(TABLE[layer.torch].draws for layer in layers):
        facts.found_own_draws.add("dropout")


def _keeps_statistics(layer: LayerNode) -> bool:
    return any(weight.collection == "batch_stats" for weight in layer.weights)


def without_negation(node: Expr) -> Expr:
    """`True` for `not False`."""
    return nodes.visited(node, _Negations())


class _Negations(cst.CSTTransformer):
    def leave_UnaryOperation(self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation) -> Expr:
        plain = isinstance(updated_node.operator, cst.Not) and nodes.is_literal(updated_node.expression, False)
        return nodes.name("True") if plain else updated_node
