"""`optimizer.zero_grad(); loss.backward(); optimizer.step()`: each on a line of its own, as all that asks where a loss
goes backward expects it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.one_line import pieces_of_line
from migrate.lowering.rounds import Input
from migrate.syntax.walking import every


def with_backward_alone(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such lines as several."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    lines = (line for line in every(module, cst.SimpleStatementLine) if len(line.body) > 1)
    return Edits({line: pieces_of_line(line) for line in lines if any(map(_goes_backward, line.body))})


def _goes_backward(small: cst.BaseSmallStatement) -> bool:
    call = small.value if isinstance(small, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value == "backward"
