"""Names where the constructor of a base stands in that of a class: neither must read the locals of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def named_apart(
    before: Sequence[Statement],
    given: Mapping[str, Expr],
    inherited: Sequence[Statement],
    after: Sequence[Statement],
    parameters: set[str],
) -> dict[str, str]:
    """The parameters and locals of a base that need another name: the class reads them itself afterwards, or another
    argument does. `before`, `after`: what the class does before and after it calls the base; `given`: what it gives
    for the base's parameters. Raises LookupError for a name of the class that hides one which the base reads."""
    own = parameters | set(usage.stores([*before, *after]))
    stored = set(usage.stores(inherited))
    bound = given.keys() | stored
    captured = (set(usage.loads(inherited)) - bound) & own
    if captured:
        raise LookupError(min(captured))
    inner = [one for statement in before for one in every(statement, (cst.FunctionDef, cst.Lambda))]
    read = set(usage.loads([*after, *inner]))
    for name in given:
        read |= {name} & set(usage.loads([value for other, value in given.items() if other != name]))
    changed = {name for name, value in given.items() if nodes.dotted(value) != name} | stored
    taken = {*own, *bound, *usage.loads([*before, *inherited, *after])}
    apart: dict[str, str] = {}
    for name in sorted(read & bound & changed):
        apart[name] = usage.unused_name(f"{name}_given" if name in given else name, taken)
        taken.add(apart[name])
    return apart
