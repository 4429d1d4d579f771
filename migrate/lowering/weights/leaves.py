"""The weights of a model that a script may train, as far as its class tells."""

from __future__ import annotations

from dataclasses import replace

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Place
from migrate.known.qualified import is_chosen, options, spelled_options
from migrate.known.script import Script
from migrate.manifest import Leaf
from migrate.weights import weights_of


def leaves_of(script: Script, model: Place) -> list[Leaf]:
    """The parameters of a model, as far as its class tells."""
    cls = script.places.get(model) or script.selves.get(model) or script.handed_classes.get(model, "")
    found = [leaf for leaf in weights_of(script, cls) if leaf.flax.startswith("params/")] if cls else []
    if cls and is_chosen(cls) and _mean_several(script, cls):
        raise Unsupported("MIG404", f"which parameters are meant of a model that is {spelled_options(cls)}")
    for row, number in sorted(script.apart.get(model, ())):
        found = [one for leaf in found for one in _apart(leaf, row, number)]
    return found


def by_number(row: str, number: int) -> str:
    """What stands for a layer of a list by its number, in the names that its weights have as leaves of their own:
    those with {0} are the others then."""
    return f"{row}.{{{number}}}." if number < 0 else f"{row}.{number}."


def _apart(leaf: Leaf, row: str, number: int) -> list[Leaf]:
    """A weight of all layers of a list as one of all but one, and one of that."""
    begins = f"{row}.{{0}}."
    if not leaf.torch.startswith(begins):
        return [leaf]
    torch = leaf.torch.replace(begins, by_number(row, number), 1)
    flax = leaf.flax.replace("{0}", f"{{{number}}}" if number < 0 else str(number), 1)
    return [leaf, replace(leaf, torch=torch, flax=flax)]


def _mean_several(script: Script, cls: str) -> bool:
    """Whether a name in Flax is another parameter in one of several classes than in another, or has other axes."""
    known: dict[str, tuple[str, int]] = {}
    leaves = [leaf for option in options(cls) for leaf in weights_of(script, option)]
    said = [(leaf.flax, (leaf.torch, -1 if leaf.shape is None else len(leaf.shape))) for leaf in leaves]
    return any(known.setdefault(flax, meant) != meant for flax, meant in said)
