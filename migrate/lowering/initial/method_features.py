"""Example inputs of models that scripts use through methods of their own, told by the model alone: an agent's
`net.pi(state)` and `net.value(state)` take what their first dense layers do."""

from __future__ import annotations

from collections.abc import Mapping

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
        left, sizes = self.weighted_parts(cls), dict[str, Expr | None]()
        for method in dict.fromkeys([*called, *own]):
            used = self.attributes_used(cls, method)
            if left & used and method not in ("__init__", "forward"):
                sizes[method] = self.features_of_method(cls, method, made)
                left -= used
        if None in sizes.values():
            left = self.weighted_parts(cls)
            renamed = self.script.classes[cls].renamed
            parts = [part for part in self.script.classes[cls].children if part in left]
            sizes = {renamed.get(part, part): self.features_of_part(cls, part, made) for part in parts}
            left = left - {*parts}
        return [] if left else self._called_with_zeros(place, sizes)

    @staticmethod
    def _called_with_zeros(place: Place, sizes: Mapping[str, Expr | None]) -> list[cst.Arg]:
        """The arguments of `init` for methods or parts that take so many features each; none where one takes none."""
        found = MethodCalls(place.name, lambda _node, _calls: None, lambda _method, _number: False)
        for name, size in sizes.items():
            if size is None:
                return []
            zeros = nodes.call("jnp.zeros", nodes.tuple_of([cst.Integer("1"), size]))
            found.add(nodes.call(f"{place.name}.{name}", zeros))
        return nodes.arguments(found.given, {"method": found.function(found.given)}) if found.calls else []
