"""`nonlocal` statements of names that no function around binds any more: Python does not compile those."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


def with_names_outside(body: Iterable[Statement]) -> list[Statement]:
    """Statements whose `nonlocal` ones name what a function around them binds."""
    return [_changed(one) if next(every(one, cst.Nonlocal), None) is not None else one for one in body]


def _changed(statement: Statement) -> Statement:
    made = statement.visit(_Outside())
    assert isinstance(made, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    return made


class _Outside(cst.CSTTransformer):
    """Takes the other names away."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: list[set[str]] = []  # by the functions around, from the outermost

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        parameters = {parameter.name.value for parameter in every(node.params, cst.Param)}
        self.bound.append(parameters | set(usage.stores(node.body)))

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.bound.pop()
        if isinstance(updated_node.body, cst.IndentedBlock) and not updated_node.body.body:
            return updated_node.with_changes(body=updated_node.body.with_changes(body=[nodes.statement("pass")]))
        return updated_node

    def leave_Nonlocal(
        self, original_node: cst.Nonlocal, updated_node: cst.Nonlocal
    ) -> cst.Nonlocal | cst.RemovalSentinel:
        around = set[str]().union(*self.bound[:-1])
        left = [item for item in updated_node.names if item.name.value in around]
        if len(left) == len(updated_node.names):
            return updated_node
        if not left:
            return cst.RemoveFromParent()
        return updated_node.with_changes(names=[*left[:-1], left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])
