"""What step functions call the models of an object: `self.q` is `q` there, unless a variable has that name."""

from __future__ import annotations

from migrate.known.kinds import Model, Place
from migrate.lowering.scope import Scope
from migrate.syntax import usage


class ModelsInSteps(Scope):
    """The names of models in step functions."""

    def model_in_step(self, place: Place) -> str:
        """The name of a model inside the step function that the function at hand becomes: `q_model` where it says
        `q = self.q(x)`."""
        if not place.of_self:
            return place.short
        if self.facts is None:
            taken = set(usage.stores(self.unit.source.module.body))
        else:
            taken = {*usage.stores(self.facts.node.body), *self.facts.parameter_names, *self.facts.keyword_names}
        if place.short not in taken or self.is_model_at(place, place.short):
            return place.short
        return usage.unused_name(f"{place.short}_model", taken)

    def is_model_at(self, place: Place, name: str) -> bool:
        """Whether a variable is another name for the same model."""
        kind = self.kind_of_name(name)
        return isinstance(kind, Model) and kind.place is not None and self.root(kind.place) == self.root(place)
