"""Models that an object of the script's own is given and does not train: `EMA(model, 0.999)`, `Evaluator(model)`.

Such an object has the model, but not its weights: its methods are given them, and return what they change of them
(`ema.update(params)`, `params = ema.apply_shadow(params)`), since whoever trains the model has them under another name.
An object that trains its model takes the weights over (`taken_over.py`), as does one of which not every call of its
methods is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Model, Optimizer, Place
from migrate.known.qualified import spelled
from migrate.lowering.scope import Scope
from migrate.syntax import nodes
from migrate.syntax.walking import every


class LookedAt(Scope):
    """Attributes that are models of others."""

    def looked_at(self, place: Place) -> bool:
        """Whether an attribute is a model that its object only looks at. What was once found to be otherwise stays
        so."""
        source = self.script.parameters_of.get(place)
        if source is None or not place.of_self:
            return False
        if self._is_trained(place):
            self.script.owned.add(place)
        elif source.scope == f"{place.scope}.__init__" and len(self.roots(place)) > 1:
            self.script.told_apart.add(place.scope)
        return place not in self.script.owned and self._is_given(place, source) and not self._is_value(place.scope)

    def looks_at_models(self, cls: str) -> bool:
        """Whether the objects of a class look at models of others."""
        return any(self.looked_at(Place(cls, name)) for name in self.script.attributes.get(cls, ()))

    def _is_given(self, place: Place, source: Place) -> bool:
        kind = self.script.attributes.get(place.scope, {}).get(place.name)
        known = kind is None or isinstance(kind, Model) or (isinstance(kind, Optimizer) and self._is_saved(place))
        return known and source.scope == f"{place.scope}.__init__" and len(self.roots(place)) == 1

    def _is_saved(self, place: Place) -> bool:
        """Whether the class of an attribute does no more with it than to save and to load its state."""
        for facts in self.script.methods(place.scope).values():
            paths = Counter(nodes.dotted(one) for one in every(facts.node.body, cst.Attribute))
            known = [f"{place.name}.{method}" for method in ("state_dict", "load_state_dict")]
            if paths[place.name] > sum(paths[path] for path in known) + (facts.qualname.endswith(".__init__")):
                return False
        return True

    def _is_trained(self, place: Place) -> bool:
        roots = self.roots(place)
        return any(scope.rpartition(".")[0] == place.scope and root in roots for scope, root in self.script.updated)

    def _is_value(self, cls: str) -> bool:
        """Whether methods of a class that need the weights are used as values."""
        return any(name.rpartition(".")[0] == cls for name in self.script.by_value)

    def refuse_unseen(self, node: cst.Call, method: str) -> None:
        """Declines a call of what may be an object that only looks at a model: `for c in callbacks: c.on_step()`."""
        if method not in self.unit.own_methods:
            return
        for facts in [one for name, one in self.script.functions.items() if name.endswith(f".{method}") and one.uses]:
            cls = facts.qualname.rpartition(".")[0]
            looked = facts.method and any(self.looked_at(place) for place in facts.uses if place.scope == cls)
            if looked and fits(node.args, facts):
                said = f"{nodes.code(node.func)} may be {spelled(facts.qualname)}, which needs the weights of a model"
                raise Unsupported("MIG404", said)

    def attributes_of(self, facts: FunctionFacts, place: Place) -> list[Place]:
        """The attributes of the object of a method that only look at a model of this scope."""
        cls, root = facts.qualname.rpartition(".")[0] if facts.method else "", self.root(place)
        found = [one for one in self.script.parameters_of if one.of_self and one.scope == cls]
        return [one for one in found if self.root(one) == root and self.looked_at(one)]

    def refuse_two_names(self, facts: FunctionFacts) -> None:
        """Declines a method of an object that has weights of its own in a function that knows the same model by another
        name, where that has been trained, or the method changes it."""
        cls = facts.qualname.rpartition(".")[0]
        if f"{self.scope}.".startswith(f"{cls}."):
            return
        kept = [one for one in sorted(facts.uses) if one in self.script.parameters_of and one.scope == cls]
        named = {root for place in self._parameters() for root in self.roots(place)}
        changed, taken = {state.place for state in facts.sets}, {self.root(one) for one in self.captured}
        for place in (one for one in kept if not self.looked_at(one)):
            elsewhere = {root for root in self.roots(place) - taken if root.scope != self.scope}
            trained = any((self.scope, root) in self.script.updated for root in elsewhere)
            if trained or (place in changed and elsewhere & named):
                said = f"{spelled(facts.qualname)} uses {place.name}, whose weights its object has"
                raise Unsupported("MIG404", f"{said}: here they have another name")

    def _parameters(self) -> list[Place]:
        facts = self.facts
        names = (*facts.parameter_names, *facts.keyword_names) if facts is not None else ()
        return [place for place in (Place(self.scope, name) for name in names) if place in self.script.parameters_of]

    def whose_weights(self, place: Place) -> Place:
        """What this scope calls a model that an object looks at: a parameter of its own, or an attribute of the object
        whose method it is."""
        root = self.root(place)
        same = [one for one in self._parameters() if self.roots(one) == {root}]
        if len(same) == 1:
            return same[0]
        own = self.scope.rpartition(".")[0]
        if place.scope == own:
            return place
        there = [
            one for one in self.script.parameters_of if one.of_self and one.scope == own and self.root(one) == root
        ]
        if len(there) == 1:
            return there[0]
        if root.of_self and root.scope not in (own, *self.owners):
            raise Unsupported("MIG404", f"the weights of {place.name} belong to an object of {spelled(root.scope)}")
        return root


def fits(args: Sequence[cst.Arg], facts: FunctionFacts) -> bool:
    """Whether a method can be called with such arguments."""
    params = facts.node.params
    names = facts.parameter_names[1:]
    plain = [arg for arg in args if arg.keyword is None]
    keywords = {arg.keyword.value for arg in args if arg.keyword is not None}
    if any(arg.star for arg in args):
        return True
    many = len(plain) > len(names) and not isinstance(params.star_arg, cst.Param)
    other = keywords - {*names, *facts.keyword_names} and params.star_kwarg is None
    missing = set(names[len(plain) :]) - keywords - facts.defaults.keys()
    return not (many or other or missing)
