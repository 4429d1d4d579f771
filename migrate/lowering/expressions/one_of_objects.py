"""Methods of an object of one of several classes of the script's: `agent = DDPG(...) if args.ddpg else TD3(...)`."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Number, OneOfObjects, Tensor
from migrate.known.qualified import spelled
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.elements import kinds_in
from migrate.syntax import nodes


def refuse_given_more(scope: Arguments, node: cst.Call, method: str, kind: OneOfObjects) -> None:
    """Declines a call of a method that some of the classes give more arguments than torch does, such as a key; the
    others learn what it is called with."""
    found = [scope.script.functions.get(f"{cls}.{method}") for cls in kind.classes]
    for facts in filter(None, found):
        given = {state.what for state in facts.states} | ({"key"} if facts.needs_key else set())
        if given:
            more = f"{spelled(facts.qualname)}, which is given {', '.join(sorted(given))} as well"
            raise Unsupported("MIG404", f"{nodes.code(node.func)} may be {more}")
        values = [scope.expr(arg.value) for arg in node.args]
        if all(isinstance(one, Tensor | Number | Host) for value in values for one in kinds_in(value.kind)):
            scope.pass_kinds(facts, node.args, values)
