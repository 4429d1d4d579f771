"""`kwargs.pop("norm_layer", nn.BatchNorm2d)` in a function that no call gives this: it is the default."""

from __future__ import annotations

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.lowering.scope import Scope
from migrate.syntax import nodes

_TAKING = ("get", "pop")


def takes_default(scope: Scope, node: cst.Call) -> bool:
    """Whether a call asks the `**kwargs` of its function for a key that is not in it, with something in its place."""
    func, facts = node.func, scope.facts
    if not isinstance(func, cst.Attribute) or func.attr.value not in _TAKING or len(node.args) != 2 or facts is None:
        return False
    key = nodes.literal(node.args[0].value)
    own = nodes.dotted(func.value) == _keywords(facts)
    return own and isinstance(key, str) and _nobody_gives(scope, facts, key, frozenset())


def _keywords(facts: FunctionFacts) -> str:
    """The name of the `**kwargs` of a function; "" where it has none."""
    star = facts.node.params.star_kwarg
    return star.name.value if star is not None else ""


def _nobody_gives(scope: Scope, facts: FunctionFacts, key: str, seen: frozenset[str]) -> bool:
    """Whether no call of a function gives it a keyword, nor hands on what may hold one. Callers that nothing calls have
    nothing to hand on."""
    if facts.qualname in scope.script.by_value or facts.qualname in seen:
        return False
    if not facts.calls and not seen and scope.script.rounds > 1:
        return False
    for site in facts.calls:
        if site.node is None:
            return False
        for arg in site.node.args:
            outer = scope.script.functions.get(site.scope)
            handed_on = outer is not None and nodes.dotted(arg.value) == _keywords(outer)
            if arg.keyword is not None and arg.keyword.value == key:
                return False
            if arg.star == "**" and not (
                handed_on and outer and _nobody_gives(scope, outer, key, seen | {facts.qualname})
            ):
                return False
    return True
