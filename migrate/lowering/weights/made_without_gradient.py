"""Weights of a model that have no gradient from the time it is made."""

from __future__ import annotations

from migrate.known.kinds import Place
from migrate.known.script import Script
from migrate.weights import frozen_by_constructors, still_weights


def still_of(script: Script, model: Place) -> frozenset[str]:
    """Those that are made without one: `requires_grad=False`."""
    cls = script.places.get(model) or script.selves.get(model)
    return still_weights(script, cls) if cls else frozenset()


def frozen_as_made(script: Script, model: Place) -> frozenset[str]:
    """Those that constructors freeze."""
    cls = script.places.get(model) or script.selves.get(model)
    return frozen_by_constructors(script, cls) if cls else frozenset()


def frozen_somewhere(script: Script) -> bool:
    """Whether weights of any model may require no gradient, as statements or constructors leave them."""
    as_made = (frozen_as_made(script, model) | still_of(script, model) for model in {*script.places, *script.selves})
    return script.frozen.somewhere or any(as_made)
