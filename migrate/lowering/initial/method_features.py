"""Example inputs of models that scripts use through methods of their own, told by the model alone: an agent's
`net.pi(state)` and `net.value(state)` take what their first dense layers do."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Place
from migrate.lowering.initial.example_shapes import ExampleShapes
from migrate.lowering.initial.method_examples import MethodCalls, MethodUses
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


class MethodFeatures(ExampleShapes, MethodUses):
    """What the methods of a model take, read off its class."""

    def methods_of_features(self, place: Place, made: Expr) -> list[cst.Arg]:
        """`jnp.zeros((1, 4)), method=lambda model, x: (model.pi(x), model.value(x))` for methods that make all weights
        of a model between them, in the order in which a script calls them; else for the parts of it that have weights;
        nothing where some take no features."""
        cls = self.script.places[place]
        called = list(self.script.method_examples.get(place, {}))
        own = [name.rpartition(".")[2] for name in self.script.methods(cls)]
        left = self.weighted_parts(cls)
        found = MethodCalls(place.name, lambda _node, _calls: None, lambda _method, _number: False)
        for method in dict.fromkeys([*called, *own]):
            used = self.attributes_used(cls, method)
            if left & used and method not in ("__init__", "forward"):
                size = self.features_of_method(cls, method, made)
                if size is None:
                    return self._parts_of_features(place, made)
                zeros = nodes.call("jnp.zeros", nodes.tuple_of([cst.Integer("1"), size]))
                found.add(nodes.call(f"{place.name}.{method}", zeros))
                left -= used
        if left or not found.calls:
            return []
        return nodes.arguments(found.given, {"method": found.function(found.given)})

    def _parts_of_features(self, place: Place, made: Expr) -> list[cst.Arg]:
        """`jnp.zeros((1, 4)), method=lambda model, x: (model.pi(x), model.value(x))` where both are parts."""
        cls = self.script.places[place]
        found = MethodCalls(place.name, lambda _node, _calls: None, lambda _method, _number: False)
        parts = self.weighted_parts(cls)
        for part in (name for name in self.script.classes[cls].children if name in parts):
            size = self.features_of_part(cls, part, made)
            if size is None:
                return []
            own = self.script.classes[cls].renamed.get(part, part)
            zeros = nodes.call("jnp.zeros", nodes.tuple_of([cst.Integer("1"), size]))
            found.add(nodes.call(f"{place.name}.{own}", zeros))
            parts = parts - {part}
        if parts or not found.calls:
            return []
        return nodes.arguments(found.given, {"method": found.function(found.given)})
