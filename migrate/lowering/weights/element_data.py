"""`.data` of tensors that a dict keeps by the names of weights: `self.shadow[name].data = mean`."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Kind, Tensor
from migrate.known.weight_kinds import WEIGHT_NAME
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement


def data_by_name(scope: Scope, node: cst.Attribute, base: Value) -> Value | None:
    """`kept[name].data`, also of a dict of which no more is known."""
    known = type(base.kind) is Kind and node.attr.value == "data" and _is_by_name(scope, node.value)
    return Value(base.node, Tensor()) if known else None


def element_for_data(scope: Scope, line: cst.SimpleStatementLine, small: cst.Assign) -> Statement | None:
    """`kept[name].data = value` as `kept[name] = value`; None of other assignments."""
    target = small.targets[0].target
    if not isinstance(target, cst.Attribute) or target.attr.value != "data":
        return None
    element = target.value
    if not isinstance(element, cst.Subscript):
        return None
    if not _is_by_name(scope, element) and not isinstance(scope.expr(element).kind, Tensor):
        return None
    if len(small.targets) > 1 or not isinstance(small.value, cst.BinaryOperation | cst.Call):
        raise Unsupported("MIG303", f"{nodes.code(target)} is set to what has another name")
    return line.with_changes(body=[small.with_changes(targets=[nodes.target(element)])])


def _is_by_name(scope: Scope, node: Expr) -> bool:
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    return isinstance(index, cst.Index) and scope.kind_of(index.value) == WEIGHT_NAME
