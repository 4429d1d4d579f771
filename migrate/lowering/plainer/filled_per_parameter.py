"""Lists that a loop over parameters fills, as comprehensions."""

from __future__ import annotations

import libcst as cst

from migrate.lowering.unit import Unit
from migrate.syntax import nodes
from migrate.syntax.nodes import Statement
from migrate.syntax.per_parameter import filled_in_turn


def filled_per_parameter(unit: Unit, loop: cst.For) -> list[Statement]:
    """`for p in net.parameters(): vs.append(torch.zeros_like(p))` as a comprehension for each list; the loop itself
    where it does more."""
    filled = filled_in_turn(loop) or []
    names = [name for name, _ in filled]
    if not filled or not set(names) <= unit.per_parameter or len(set(names)) < len(names):
        return [loop]
    if loop not in unit.apart:
        each = cst.CompFor(loop.target, loop.iter)
        made: list[Statement] = [
            nodes.statement("{n} = {v}", n=nodes.expression(n), v=cst.ListComp(value, each)) for n, value in filled
        ]
        made[0] = made[0].with_changes(leading_lines=loop.leading_lines)
        for one in made:
            unit.stands_for(one, loop)
        unit.apart[loop] = made
    return unit.apart[loop]
