"""Methods of an object of one of several classes of the script's: `agent = DDPG(...) if args.ddpg else TD3(...)`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Host, Number, OneOfObjects, Tensor
from migrate.known.qualified import spelled
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.elements import kinds_in
from migrate.rules.rule import Value
from migrate.syntax import nodes


def methods_of_each(scope: Arguments, node: cst.Call, method: str, kind: OneOfObjects) -> list[FunctionFacts]:
    """The methods that a call may run. Raises Unsupported where a class gives its own more arguments than torch does,
    such as a key."""
    found = [scope.script.functions.get(f"{cls}.{method}") for cls in kind.classes]
    methods = [facts for facts in found if facts is not None]
    for facts in methods:
        given = {state.what for state in facts.states} | ({"key"} if facts.needs_key else set())
        if given:
            more = f"{spelled(facts.qualname)}, which is given {', '.join(sorted(given))} as well"
            raise Unsupported("MIG404", f"{nodes.code(node.func)} may be {more}")
    return methods


def pass_to_each(scope: Arguments, methods: Sequence[FunctionFacts], node: cst.Call, values: Sequence[Value]) -> None:
    """Tells methods what they are called with, where that is tensors and numbers."""
    if all(isinstance(one, Tensor | Number | Host) for value in values for one in kinds_in(value.kind)):
        for facts in methods:
            scope.pass_kinds(facts, node.args, values)
