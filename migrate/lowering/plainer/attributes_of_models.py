"""What a script keeps on a model besides: `model.best_accuracy = 0.0`. A Flax module is frozen, so it is a variable
beside it, `model_best_accuracy`. Nothing else than the function that makes the model does anything with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.kinds import Place
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

# What a model has of torch's, and means something there.
_OF_MODULES = frozenset(
    {"training", "forward", "weight", "bias", "requires_grad", "data", "grad", "module", "dump_patches"}
)
_OF_ITS_OWN = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


def with_attributes_apart(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with such attributes as variables; None where there are none."""
    made: list[Input] = []
    places = [place for place in lowered[0].script.places if not place.of_self]
    for one in inputs:
        edits = Edits()
        for place in places:
            body = _body_of(one, place)
            if body is not None:
                _take_out(edits, body, place.name, inputs)
        made.append(one.edited(edits) if edits.names else one)
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _body_of(one: Input, place: Place) -> cst.Module | cst.BaseSuite | None:
    """The statements that make a model, of a file or of one of its functions; None where it is made elsewhere."""
    if place.scope == one.scope:
        return one.source.module
    name = place.scope.removeprefix(one.scope)
    found = [each for each in every(one.source.module, cst.FunctionDef) if each.name.value == name]
    return found[0].body if place.scope.startswith(one.scope) and len(found) == 1 else None


def _take_out(edits: Edits, body: cst.Module | cst.BaseSuite, name: str, inputs: Sequence[Input]) -> None:
    """Notes the attributes of one model."""
    targets = [one.target for one in every(body, cst.AssignTarget, closed=_OF_ITS_OWN)]
    told = [one for one in targets if isinstance(one, cst.Attribute) and nodes.dotted(one.value) == name]
    taken = {one.value for each in inputs for one in every(each.source.module, cst.Name)}
    for attribute in dict.fromkeys(one.attr.value for one in told):
        path = f"{name}.{attribute}"
        inside = [one for one in every(body, cst.Attribute, closed=_OF_ITS_OWN) if nodes.dotted(one) == path]
        anywhere = [
            one
            for each in inputs
            for one in every(each.source.module, (cst.Attribute, cst.SimpleString))
            if (one.attr.value if isinstance(one, cst.Attribute) else nodes.literal(one)) == attribute
        ]
        if attribute not in _OF_MODULES and len(anywhere) == len(inside):
            edits.names[path] = usage.unused_name(f"{name}_{attribute}", taken)
