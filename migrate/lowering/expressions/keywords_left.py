"""`kwargs.pop("norm_layer", nn.BatchNorm2d)`: what the calls of a function give its `**kwargs`, or else the default."""

from __future__ import annotations

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Kind, Makers, ModuleClass, TorchName
from migrate.layers.table import TABLE
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

_TAKING = ("get", "pop")


def kinds_given(scope: Scope, node: cst.Call) -> list[Kind] | None:
    """What the calls of a function give for a key that it asks its `**kwargs` for, with something in its place: layers
    and classes of modules; None of other calls, and where that is not told."""
    func, facts = node.func, scope.facts
    if not isinstance(func, cst.Attribute) or func.attr.value not in _TAKING or len(node.args) != 2 or facts is None:
        return None
    key = nodes.literal(node.args[0].value)
    if nodes.dotted(func.value) != _keywords(facts) or not isinstance(key, str):
        return None
    return _given(scope, facts, key, frozenset())


def _keywords(facts: FunctionFacts) -> str:
    """The name of the `**kwargs` of a function; "" where it has none."""
    star = facts.node.params.star_kwarg
    return star.name.value if star is not None else ""


def _given(scope: Scope, facts: FunctionFacts, key: str, seen: frozenset[str]) -> list[Kind] | None:
    """What calls give a function by a keyword, or by the `**kwargs` that they hand on; None where that is not told.
    Callers that nothing calls have nothing to hand on."""
    if facts.qualname in scope.script.by_value or facts.qualname in seen or _may_set(facts, key):
        return None
    if not facts.calls and not seen and scope.script.rounds > 1:
        return None
    found: list[Kind] = []
    for site in facts.calls:
        outer = scope.script.functions.get(site.scope)
        for arg in site.node.args if site.node is not None else ():
            more: list[Kind] | None = []
            if arg.keyword is not None and arg.keyword.value == key:
                more = _maker(scope.in_file_of(site.scope), arg.value)
            elif arg.star == "**":
                own = outer is not None and nodes.dotted(arg.value) == _keywords(outer)
                more = _given(scope, outer, key, seen | {facts.qualname}) if own and outer is not None else None
            if more is None or site.node is None:
                return None
            found += more
    return found


def _may_set(facts: FunctionFacts, key: str) -> bool:
    """Whether a function may put a key into its `**kwargs`, itself or by a function that it hands them to: one that is
    told another key besides is taken to set that."""
    own, body = _keywords(facts), facts.node.body
    if any(
        isinstance(one.target, cst.Subscript) and nodes.dotted(one.target.value) == own
        for one in every(body, cst.AssignTarget)
    ):
        return True
    for call in usage.calls(body):
        given = [nodes.literal(arg.value) for arg in call.args]
        handed = any(nodes.dotted(arg.value) == own and not arg.star for arg in call.args)
        texts = [one for one in given if isinstance(one, str)]
        if nodes.dotted(call.func) in (f"{own}.update", f"{own}.setdefault") or (
            handed and (key in texts or not texts)
        ):
            return True
    return False


def _maker(scope: Scope, node: cst.BaseExpression) -> list[Kind] | None:
    """A layer of torch's, or a class of modules."""
    name, kind = scope.torch_name(node), scope.kind_of(node)
    if name in TABLE:
        return [Makers((TorchName(name),))]
    return [kind] if isinstance(kind, ModuleClass) else None
