"""What an object of the script's own has, seen from outside its class: `trainer.model`, `agent.optimizer`.

The state that belongs to it is an attribute of the same object: `trainer.params`. Of several objects that a scope knows
each is taken as if it had a class of its own (`copies_by_class.py`), where it is only asked for its attributes; else
they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    UNKNOWN,
    HostClass,
    Instance,
    Kind,
    Model,
    Optimizer,
    Place,
    Plain,
    Scheduler,
)
from migrate.lowering.expressions.elements import WeightsByName
from migrate.syntax import nodes

if TYPE_CHECKING:
    from migrate.lowering.scope import Scope


def held_in_object(scope: Scope, path: str) -> Kind | None:
    """The model, optimizer or scheduler at a dotted name that starts with the only object of a class that a scope knows
    by then."""
    owner, _, attribute = path.rpartition(".")
    if owner.count(".") > 1:  # `self.trainer.model` is as far as it goes
        return None
    kind = scope.kind_of_name(owner)
    if not isinstance(kind, Instance) or _names(scope, kind) - {owner}:
        return None
    if f"{scope.scope}.".startswith(f"{kind.cls}."):  # in a method, where `self` is another one
        return None
    held = scope.script.attributes.get(kind.cls, {}).get(f"self.{attribute}")
    if isinstance(held, WeightsByName):
        return held
    if not isinstance(held, Model | Optimizer | Scheduler) or held.place != Place(kind.cls, f"self.{attribute}"):
        return None
    return held if scope.owners.setdefault(kind.cls, owner) == owner else None


def _names(scope: Scope, kind: Instance) -> set[str]:
    """What this scope calls objects of a class: of several, which is in which mode would not be told apart."""
    return {name for name, found in scope.env.kinds.items() if found == kind}


def surely_held(scope: Scope, node: cst.Attribute) -> Kind:
    """The same where an object is known to have one: raises Unsupported where it is not known which object."""
    kind = scope.kind_of(node)
    if kind is UNKNOWN:
        owner = scope.kind_of(node.value)
        scope.script.told_apart |= {owner.cls} if isinstance(owner, Instance) else set()
        several = "belongs to one of several objects, or to an object of several names"
        raise Unsupported("MIG404", f"{nodes.code(node)} {several}: use it in a method of its class")
    return kind


def asks_object(scope: Scope, call: cst.Call) -> bool:
    """Whether it is a method of an object of the script's own: `buffer.sample(16)`, also of one that is made there.
    What it gives depends on what has happened to the object by then."""
    if not isinstance(call.func, cst.Attribute):
        return False
    owner = call.func.value
    if isinstance(owner, cst.Name) and scope.kind_of(owner) == UNKNOWN:
        owner = scope.env.definitions.get(owner.value, owner)
    maker = scope.kind_of(owner.func) if isinstance(owner, cst.Call) else UNKNOWN
    return isinstance(maker, HostClass) or maker == Plain("class") or isinstance(scope.kind_of(owner), Instance)
