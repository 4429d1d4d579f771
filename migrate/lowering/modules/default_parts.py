"""Modules that a constructor is given, or else makes: `self.head = nn.Linear(8, 2) if head is None else head`.

Flax names a module that comes as a field by the field. A copy of it has the name of the attribute, as the usual one
has.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from migrate.known.constructed import ChoiceNode, ClassNode, ListNode, Node
from migrate.known.script import Script
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def with_copies(value: Expr, fields: Collection[str]) -> Expr:
    """A value with `head.copy()` where it may be what a constructor is given, one of `fields`, or something else."""
    return nodes.visited(value, _Copies(fields)) if fields else value


def may_be_made(init: cst.FunctionDef | None, field: str, attribute: str) -> bool:
    """Whether a constructor may make a module itself where it keeps what it is given as an attribute: under the name of
    its argument, or for the attribute."""
    if init is None:
        return False
    for small in every(init.body, cst.Assign):
        makes = not nodes.is_literal(small.value, None) and nodes.dotted(small.value) != field
        if makes and any(nodes.dotted(one.target) in (field, f"self.{attribute}") for one in small.targets):
            return True
    return False


def weighted(script: Script, node: Node) -> bool:
    """Whether a module has weights."""
    if isinstance(node, ClassNode):
        return not script.weightless(node.cls)
    if isinstance(node, ListNode | ChoiceNode):
        return any(weighted(script, child) for child in node.children)
    return bool(node.weights)


class _Copies(cst.CSTTransformer):
    def __init__(self, fields: Collection[str]) -> None:
        super().__init__()
        self.fields = fields

    def copied(self, node: Expr) -> Expr:
        given = isinstance(node, cst.Name) and node.value in self.fields
        return nodes.call(cst.Attribute(node, cst.Name("copy"))) if given else node

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        body, orelse = self.copied(updated_node.body), self.copied(updated_node.orelse)
        return updated_node.with_changes(body=body, orelse=orelse)

    def leave_BooleanOperation(self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation) -> Expr:
        """`head or nn.Dense(2)`."""
        left = updated_node.left
        if not isinstance(updated_node.operator, cst.Or) or self.copied(left) is left:
            return updated_node
        return nodes.expression("{made} if {x} is None else {x}.copy()", made=updated_node.right, x=left)
