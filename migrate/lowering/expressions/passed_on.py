"""Generators of the script's own that hand on what they go through: `logger.log_every(loader, 20)`, which prints; and
objects of its own that loops go over: a loader around another one, that moves its batches to a device."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import UNKNOWN, Host, Instance, Items, Kind, Never
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.elements import loop_kind
from migrate.lowering.expressions.results_followed import function_called
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def passed_on(scope: Scope, call: cst.Call) -> Expr | None:
    """What a generator that is called gives one by one, as it is; None of other calls."""
    facts = function_called(scope, call)
    taken = None if facts is None else _handed_on(facts.node)
    if facts is None or taken is None or any(arg.star for arg in call.args):
        return None
    names = facts.parameter_names[1:] if facts.owner_is_class else facts.parameter_names
    given = dict(zip(argument_names(call.args, names), (arg.value for arg in call.args), strict=True))
    return given.get(taken)


def gone_over(scope: Scope, kind: Kind) -> Kind:
    """What a loop over an object of the script's own goes through, as its `__iter__` tells; other kinds as they are."""
    each = scope.script.functions.get(f"{kind.cls}.__iter__") if isinstance(kind, Instance) else None
    if each is None or not isinstance(kind, Instance):
        return kind
    if not isinstance(each.yields, Never) or not _returns_self(each.node):
        return each.result
    following = scope.script.functions.get(f"{kind.cls}.__next__")
    element = following.result if following is not None else UNKNOWN
    if isinstance(element, Host):
        return Host("stream")
    return kind if element is UNKNOWN else Items(None, element, "generator")


def each_of(scope: Scope, kind: Kind, origin: int) -> Kind:
    """The kind of the loop variable over a value of this kind, which may be such an object (see `loop_kind`)."""
    return loop_kind(gone_over(scope, kind), origin)


def starts_anew(scope: Scope, kind: Instance) -> bool:
    """Whether each loop over an object begins where the first one has begun: it has a generator of its own, or
    `__iter__` sets what `__next__` changes."""
    each = scope.script.functions[f"{kind.cls}.__iter__"].node
    following = scope.script.functions.get(f"{kind.cls}.__next__")
    if following is None or not _returns_self(each):
        return True
    return usage.attributes_set(following.node) <= usage.attributes_set(each)


def _returns_self(node: cst.FunctionDef) -> bool:
    """Whether a method gives its object."""
    return [nodes.dotted(one.value) for one in usage.returns(node.body) if one.value is not None] == ["self"]


def _handed_on(node: cst.FunctionDef) -> str | None:
    """The parameter whose elements a function yields, each at its turn and nothing else; None where it is no such
    function."""
    yields = list(every(node.body, cst.Yield))
    if len(yields) != 1:
        return None
    for loop in every(node.body, cst.For):
        given = [suites.alone(one) for one in suites.suite_of(loop.body.body)]
        own = any(isinstance(one, cst.Expr) and one.value is yields[0] for one in given)
        if own and yields[0].value is not None and nodes.dotted(loop.target) == nodes.dotted(yields[0].value):
            return nodes.dotted(loop.iter)
    return None
