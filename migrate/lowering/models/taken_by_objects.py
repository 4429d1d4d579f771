"""Which models an object has taken over by the end of a call: `Trainer(model)`, `trainer.fit(model, data)`."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Place
from migrate.lowering.models.looked_at import LookedAt


class TakenByObjects(LookedAt):
    """Noting them: from then on the object has their weights."""

    def note_taken(self, node: cst.Call, method: str, owner: Place) -> None:
        """Notes the models that an object, which is called `owner` here, takes over in a call of a method."""
        cls = method.rpartition(".")[0]
        for place, source in self.script.parameters_of.items():
            if place.scope != cls or not place.of_self or self.looked_at(place):
                continue
            model, called = source, ""
            while model.scope.rpartition(".")[0] == cls and model in self.script.parameters_of:
                called, model = model.scope, self.script.parameters_of[model]  # one method hands it on to another
            if called != method:
                continue
            self.captured[model] = node
            if self.facts is not None and self.passed_in(model) and self.trained_in(cls, model):
                self.facts.keeps.add(model)
            if model.scope == self.scope:
                self.script.holders.setdefault(model, set()).add((owner, place))

    def trained_in(self, cls: str, model: Place) -> bool:
        """Whether methods of a class change the weights of a model."""
        root = self.root(model)
        return any(scope.rpartition(".")[0] == cls and place == root for scope, place in self.script.updated)
