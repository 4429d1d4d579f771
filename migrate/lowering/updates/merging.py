"""Statements that a forward pass needs beside its expression are joined with the assignment of its output."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Statement

OUTPUTS = ("output", "model_output")


def merged_outputs(statements: Sequence[Statement]) -> list[Statement]:
    """`output, mutated = f(); y = output` becomes `y, mutated = f()`."""
    made: list[Statement] = []
    for statement in statements:
        for back in (1, 2):
            joined = _joined(made[-back], statement) if len(made) >= back else None
            if joined is not None:
                made[-back] = joined
                break
        else:
            made.append(statement)
    return made


def _joined(pair: Statement, statement: Statement) -> Statement | None:
    """`y, mutated = f()` for `output, mutated = f()` and `y = output`; None for other statements."""
    if not isinstance(pair, cst.SimpleStatementLine) or not isinstance(statement, cst.SimpleStatementLine):
        return None
    applied, assign = pair.body[0], statement.body[0]
    if not isinstance(applied, cst.Assign) or not isinstance(assign, cst.Assign):
        return None
    outputs, name = applied.targets[0].target, assign.targets[0].target
    if not isinstance(outputs, cst.Tuple) or not isinstance(name, cst.Name) or len(outputs.elements) != 2:
        return None
    first, second = (element.value for element in outputs.elements)
    if nodes.dotted(first) not in OUTPUTS or nodes.dotted(assign.value) != nodes.dotted(first):
        return None
    target = nodes.tuple_of([name, second], parentheses=False)
    return pair.with_changes(body=[applied.with_changes(targets=[nodes.target(target)])])
