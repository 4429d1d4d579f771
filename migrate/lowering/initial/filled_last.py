"""Which of several initial values of a weight counts: a constructor may give it one, then a function that it applies to
all its modules, then whoever holds the module, and then the script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.known.moments import Moment
from migrate.known.qualified import spelled
from migrate.known.script import Script
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

if TYPE_CHECKING:
    from migrate.lowering.scope import Scope


def moment_of(scope: Scope) -> Moment:
    """When the statement at hand runs."""
    place = tuple(number for block in scope.blocks for number in (block.positions[block.index], block.index))
    if scope.context == "setup":
        return Moment(scope.cls, scope.scope.rpartition(".")[2], place)
    return Moment("", scope.scope, place, repr(scope.filled_model))


def counts_after(script: Script, one: Moment, other: Moment) -> bool:
    """Whether what is given at one moment replaces what is given at another: whoever holds a module has its turn after
    the module's own constructor."""
    if one.cls == other.cls:
        runs = script.classes[one.cls].runs if one.cls in script.classes else {}
        return one.is_after(other, runs)
    return not one.cls or (bool(other.cls) and other.cls in script.with_submodules(one.cls))


def is_filled_later(script: Script, facts: ClassFacts, path: str, torch: str, weight: str) -> bool:
    """Whether a function gives all layers of a kind their weights after a statement has given one of them its own."""
    asked = facts.asked_at.get(path)
    fillings = [now for (now, kind), given in facts.fillings.items() if kind == torch and weight in given]
    return asked is not None and any(counts_after(script, now, asked) for now in fillings)


def filled_by(script: Script, facts: ClassFacts, torch: str, before: Moment | None = None) -> dict[str, Expr]:
    """What functions give the weights of the layers of a kind in a class, of several the last. `before`: by those
    besides the one of this moment."""
    known = {**facts.fillings, **facts.found_fillings}
    left = [moment for moment, kind in known if kind == torch and moment != before]
    made: dict[str, Expr] = {}
    by: dict[str, Moment] = {}
    while left:
        first = next((one for one in left if not any(counts_after(script, one, other) for other in left)), left[0])
        left.remove(first)
        for weight, given in known[first, torch].items():
            differs = weight in made and nodes.code(made[weight]) != nodes.code(given)
            if differs and not counts_after(script, first, by[weight]):
                told = f"the {weight} of every {torch} in {spelled(facts.name)} starts from several values"
                raise Unsupported("MIG204", f"{told}, the last of which is not known")
            made[weight], by[weight] = given, first
    return made
