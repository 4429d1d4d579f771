"""Functions that build modules: `def conv_bn(width): return nn.Sequential(...)`, called by a constructor, or where a
model is made in place whose layers have a mode.

What a class knows of itself, its builder is told: the mode is a parameter of it, `training`. The initialisers that the
class gives its layers stand in the builder.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Function, Kind, Model, Module, Never
from migrate.known.qualified import spelled
from migrate.known.script import INLINE, layers_in
from migrate.layers.layer import Layer
from migrate.layers.table import TABLE
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.modules.given_parts import without_negation
from migrate.lowering.modules.taken_parts import TakenParts
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


class Builders(TakenParts):
    """What a builder has of the classes that call it, and they of it."""

    def mode_expression(self, what: str) -> Expr:
        """The mode of the module that is being made: a field of its class, or a parameter of its builder."""
        if self.cls:
            return nodes.expression("self.training")
        if self.holder:
            return nodes.name("False")
        if self.facts is not None:
            self.facts.wants_mode = True
        if not self.building:
            raise Unsupported("MIG201", f"{what} outside a module class has no train mode to follow")
        assert self.facts is not None
        self.facts.takes_mode = True
        return nodes.name("training")

    def in_mode(self, node: Expr, what: str) -> Expr:
        """A constructor that was written for a class, where it stands."""
        mode = self.mode_expression(what)
        return node if self.cls else without_negation(nodes.visited(node, _Mode(mode)))

    def built_initializers(self, layer: Layer) -> dict[str, Expr]:
        """The initialisers that the classes which call this builder give a layer."""
        if self.facts is None or not self.building:
            return {}
        found = [self.initializers_outside(cls, layer) for cls in sorted(self.facts.initializers)]
        texts = {repr({weight: nodes.code(made) for weight, made in one.items()}) for one in found}
        if len(texts) > 1 and not self.script.still_open():  # a caller may have its initialisers from one not known yet
            raise Unsupported("MIG204", f"{spelled(self.scope)} makes layers that its callers initialise differently")
        return dict(found[0]) if found else {}

    @property
    def fills_module(self) -> bool:
        """Whether what is made here is a part of a module."""
        return bool(self.cls) and (self.context == "setup" or INLINE in self.cls)

    def take_built(self, facts: FunctionFacts) -> dict[str, Expr]:
        """Notes a call of a builder: what it makes is part of this class. Returns the arguments besides its own."""
        part = self.fills_module
        if not part and not self.building and not self.holder:
            return {}
        if not facts.builds and not self.makes_modules(facts) and not self.hands_over(facts):
            return {}
        if not facts.builds:
            self.now_builds(facts)
        if self.holder:
            facts.makes_models = True
            facts.found_initializers[self.holder] = self.script.classes[self.holder].initializers
            return self.told_to(facts)
        if part:
            self.own_built(facts)
        elif self.facts is not None:
            facts.found_initializers |= self.facts.initializers
        mode = {"training": self.mode_expression(spelled(facts.qualname))} if facts.takes_mode else {}
        return mode | self.told_to(facts)

    def hands_over(self, facts: FunctionFacts) -> bool:
        """Whether a function returns a model that is made there, or by a function that it calls."""
        made = self.script.handed | self.script.given_up
        return any(isinstance(kind, Model) and kind.place in made for kind in kinds_in(facts.result))

    def now_builds(self, facts: FunctionFacts) -> None:
        """Has a function make parts of modules from here on: what it made were models until then."""
        facts.builds = True
        facts.returns = facts.returns if isinstance(facts.returns, Module) else Never()
        for place in [place for place in self.script.places if place.scope == facts.qualname]:
            cls = self.script.places.pop(place)
            if INLINE in cls and cls not in self.script.places.values():  # another scope's may have the same name
                self.script.classes.pop(cls, None)

    def not_built_yet(self, node: Expr) -> bool:
        """Whether this calls a builder that was not known as one when it was lowered."""
        kind = self.kind_of(node.func) if isinstance(node, cst.Call) else None
        facts = self.script.functions[kind.name] if isinstance(kind, Function) else None
        return facts is not None and facts.builds and isinstance(facts.returns, Never)

    def own_built(self, facts: FunctionFacts) -> None:
        """What the layers of a builder do, this class does."""
        own = self.script.classes[self.cls]
        if self.cls in self.script.half:
            raise Unsupported("MIG203", f"{spelled(facts.qualname)} makes layers outside the class, under autocast")
        facts.found_initializers[self.cls] = own.initializers
        made = [kind for kind in kinds_in(facts.result) if isinstance(kind, Module)]  # a module, or a list of them
        layers = [layer for kind in made for option in kind.options for layer in layers_in(option)]
        own.own_stats |= any(weight.collection == "batch_stats" for layer in layers for weight in layer.weights)
        own.own_trains |= facts.takes_mode
        if facts.takes_mode and any(TABLE[layer.torch].draws for layer in layers if layer.torch in TABLE):
            own.found_own_draws.add("dropout")

    def built_kind(self, kind: Kind) -> Kind:
        """What a builder returns: a model of its own where no module takes it."""
        if self.cls or self.building or self.holder or not isinstance(kind, Module) or len(kind.options) != 1:
            return kind
        option = kind.options[0]
        return Model(option.cls) if isinstance(option, ClassNode) else kind


def class_of_part(kind: Module) -> str:
    """The class of a module, of the script's or of torch's; "" where it may be several, or is a list."""
    option = kind.options[0] if len(kind.options) == 1 else None
    if isinstance(option, ClassNode):
        return option.cls
    return option.torch if isinstance(option, LayerNode) else ""


class _Mode(cst.CSTTransformer):
    """Puts something else in the place of `self.training`."""

    def __init__(self, mode: Expr) -> None:
        super().__init__()
        self.mode = mode

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return self.mode if nodes.dotted(original_node) == "self.training" else updated_node
