"""Sums that a script adds to while acting: `entropy += dist.entropy().mean()`, for a loss after the loop.

What a loop takes out of JAX for an environment is not traced, so the sum would be a number without a gradient. The
input is taken as if it were written with a list of the terms, which the loss sums up: lists are computed again
(`computed_again`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.kept_mentions import mentions, plural, same_variable
from migrate.lowering.rounds import Input, Lowered
from migrate.lowering.updates.region import first_backward
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


def with_sums_as_lists(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with such sums as lists; None where there are none."""
    summed = lowered[0].script.summed_while_acting
    if not any(summed.values()):
        return None
    made: list[Input] = []
    for one in inputs:
        edits = Edits()
        for loop in every(one.source.module, (cst.For, cst.While)):
            for name in sorted(summed.get(id(loop), ())):
                _take_apart(edits, one.source.module, loop, name)
        made.append(replace(one, source=edited(one.source, edits)) if edits.instead else one)
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _take_apart(edits: Edits, module: cst.Module, loop: Statement, name: str) -> None:
    """Notes one sum, where it starts at zero right before the loop, and a loss is all that reads it."""
    found = mentions(module, name)
    inside = [one for one in found if any(level.statement is loop for level in one.levels)]
    if not inside:
        return
    level = next(level for level in inside[0].levels if level.statement is loop)
    own = same_variable(found, inside[0], name)
    beside = [at.index for one in own if (at := one.level_in(level.suite)) is not None]
    start = next((i for i in beside if _is_zero(level.suite[i], name)), len(level.suite))
    reading = min((i for i in beside if i > level.index), default=len(level.suite))
    backward = first_backward(level.suite, reading + 1)
    term = inside[0].line
    if (
        len(beside) != len(own)
        or [i for i in beside if i < level.index] != [start]
        or len(inside) != 1
        or backward is None
        or not isinstance(level.suite[reading], cst.SimpleStatementLine)
        or not isinstance(term, cst.SimpleStatementLine)
        or not isinstance(small := term.body[0], cst.AugAssign)
        or not isinstance(small.operator, cst.AddAssign)
        or len(term.body) != 1
    ):
        return
    terms = usage.unused_name(plural(name), {one.value for one in every(module, cst.Name)})
    beginning = level.suite[start]
    assert isinstance(beginning, cst.SimpleStatementLine)
    edits.instead[beginning] = [nodes.statement(f"{terms} = []").with_changes(leading_lines=beginning.leading_lines)]
    added = nodes.statement(f"{terms}.append({{x}})", x=small.value)
    edits.instead[term] = [added.with_changes(leading_lines=term.leading_lines)]
    edits.ahead.setdefault(level.suite[reading], []).append(nodes.statement(f"{name} = sum({terms})"))


def _is_zero(statement: Statement, name: str) -> bool:
    """Whether a statement is `entropy = 0`."""
    small = suites.alone(statement)
    return isinstance(small, cst.Assign) and nodes.code(small) in (f"{name} = 0", f"{name} = 0.0", f"{name} = 0.")
