"""Methods of an object of one of several classes of the script's: `agent = DDPG(...) if args.ddpg else TD3(...)`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import CallSite, FunctionFacts
from migrate.known.kinds import Host, Number, OneOfObjects, Tensor
from migrate.known.qualified import spelled
from migrate.known.states import KEY
from migrate.lowering.expressions.arguments import Arguments, argument_names
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.statements.state import StateAccess
from migrate.rules.rule import Value
from migrate.syntax import nodes


def methods_of_each(scope: Arguments, node: cst.Call, method: str, kind: OneOfObjects) -> list[FunctionFacts]:
    """The methods that a call may run. Raises Unsupported where a class gives its own more arguments than torch does,
    but for a key: all take that then."""
    found = [scope.script.functions.get(f"{cls}.{method}") for cls in kind.classes]
    methods = [facts for facts in found if facts is not None]
    for facts in methods:
        given = {state.what for state in facts.states} - {KEY}
        if given:
            more = f"{spelled(facts.qualname)}, which is given {', '.join(sorted(given))} as well"
            raise Unsupported("MIG404", f"{nodes.code(node.func)} may be {more}")
    return methods


def with_key_of_each(
    scope: StateAccess, methods: Sequence[FunctionFacts], node: cst.Call, args: Sequence[cst.Arg]
) -> list[cst.Arg]:
    """The arguments of a call with a key among them where one of the methods that it may run draws: all of them take it
    then, ahead of their defaults. Raises Unsupported where that is not the same place in each."""
    if not any(facts.needs_key and not facts.local_key for facts in methods):
        return list(args)
    scope.script.found_keyed |= {facts.qualname for facts in methods}
    placed = sum(arg.keyword is None for arg in args)
    ahead = {
        len(facts.parameter_names) - 1 - len(facts.defaults.keys() - set(facts.keyword_names)) for facts in methods
    }
    if placed <= min(ahead) and not any(arg.star for arg in args):
        return nodes.extended(args, {scope.unit.key: scope.fresh_key()})
    if len(ahead) > 1 or any(arg.star for arg in args):
        told = "which take a key, and their arguments at other places"
        raise Unsupported("MIG404", f"{nodes.code(node.func)} may be one of several methods, {told}")
    (at,) = ahead
    return nodes.separated([*args[:at], cst.Arg(scope.fresh_key()), *args[at:]])


def pass_to_each(scope: Arguments, methods: Sequence[FunctionFacts], node: cst.Call, values: Sequence[Value]) -> None:
    """Tells methods that they are called, and with what, where that is tensors and numbers."""
    repeated = scope.loops > 0 or scope.nested or scope.under_jit
    for facts in methods:
        names = argument_names(node.args, facts.parameter_names[1:])
        bound = {name: arg.value for name, arg in zip(names, node.args, strict=True) if name}
        facts.found_calls.append(CallSite(scope.scope, bound, dict(scope.env.definitions), node, repeated))
        callers = scope.script.callers.setdefault(facts.qualname, [])
        if scope.scope not in callers:
            callers.append(scope.scope)
    if all(isinstance(one, Tensor | Number | Host) for value in values for one in kinds_in(value.kind)):
        for facts in methods:
            scope.pass_kinds(facts, node.args, values)
