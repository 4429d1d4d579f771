"""Statements around others, as a decorator or a context has them around what it encloses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Exchanging
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement

_MARK = "__enclosed__"


def enclosing(
    body: Sequence[Statement], hole: Statement, inside: Sequence[Statement], values: Mapping[str, Expr]
) -> list[Statement]:
    """The statements of a body by other names, with others, whose names stay, in the place of one of them."""
    marked = suites.block(body).visit(Exchanging({hole: nodes.statement(_MARK)}, {}))
    assert isinstance(marked, cst.IndentedBlock)
    made = nodes.substituted(marked, values).deep_clone().visit(_Filling(inside))
    assert isinstance(made, cst.IndentedBlock)
    return suites.suite_of(made.body)


class _Filling(cst.CSTTransformer):
    """Puts statements in the place of the mark."""

    def __init__(self, inside: Sequence[Statement]) -> None:
        super().__init__()
        self.inside = inside

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[Statement]:
        small = suites.alone(updated_node)
        if not isinstance(small, cst.Expr) or nodes.dotted(small.value) != _MARK:
            return updated_node
        return cst.FlattenSentinel(suites.with_comments(list(self.inside), updated_node))
