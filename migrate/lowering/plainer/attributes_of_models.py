"""What a script keeps on a model besides: `model.best_accuracy = 0.0`. A Flax module is frozen, so it is a variable
beside it, `model_best_accuracy`. Nothing else than the function that makes the model does anything with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.known.kinds import Place
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import attributes_named, texts_named
from migrate.syntax.nodes import Expr
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
        edits, imported = Edits(), imported_names(one.source.module)
        for place in places:
            body = _body_of(one, place)
            if body is not None:
                _take_out(edits, body, place.name, imported, inputs)
        made.append(one.edited(edits) if edits.names else one)
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _body_of(one: Input, place: Place) -> cst.Module | cst.BaseSuite | None:
    """The statements that make a model, of a file or of one of its functions; None where it is made elsewhere."""
    if place.scope == one.scope:
        return one.source.module
    name = place.scope.removeprefix(one.scope)
    found = [each for each in every(one.source.module, cst.FunctionDef) if each.name.value == name]
    return found[0].body if place.scope.startswith(one.scope) and len(found) == 1 else None


def _is_part(value: Expr, imported: Mapping[str, str]) -> bool:
    """Whether a value may be a layer, or a weight: what torch makes."""
    return any(full_name(one, imported).startswith("torch.") for one in every(value, (cst.Attribute, cst.Name)))


def _take_out(
    edits: Edits,
    body: cst.Module | cst.BaseSuite,
    name: str,
    imported: Mapping[str, str],
    inputs: Sequence[Input],
) -> None:
    """Notes the attributes of one model."""
    told: dict[str, list[cst.Assign]] = {}
    for small in every(body, cst.Assign, closed=_OF_ITS_OWN):
        for target in (one.target for one in small.targets):
            if isinstance(target, cst.Attribute) and nodes.dotted(target.value) == name:
                told.setdefault(target.attr.value, []).append(small)
    if not told:
        return
    taken = {one.value for each in inputs for one in every(each.source.module, cst.Name)}
    for attribute, lines in told.items():
        path = f"{name}.{attribute}"
        inside = [one for one in every(body, cst.Attribute, closed=_OF_ITS_OWN) if nodes.dotted(one) == path]
        files = [each.source.module for each in inputs]
        anywhere = sum(len(attributes_named(one, attribute)) + len(texts_named(one, attribute)) for one in files)
        first = {one.target for one in lines[0].targets}
        begins = inside[0] in first and not any(
            nodes.dotted(one) == path for one in every(lines[0].value, cst.Attribute)
        )
        own = begins and not any(_is_part(small.value, imported) for small in lines)
        if attribute not in _OF_MODULES and own and anywhere == len(inside):
            edits.names[path] = usage.unused_name(f"{name}_{attribute}", taken)
