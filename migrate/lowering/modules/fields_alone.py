"""Methods that a module of Flax has before it has weights: those that read its fields alone."""

from __future__ import annotations

import libcst as cst

from migrate.lowering.weights.any_weight import listed_for_one
from migrate.syntax.walking import walk


def reads_fields(method: cst.FunctionDef, fields: set[str]) -> bool:
    """Whether a method reads nothing of its module but these fields, and at most asks for the type of its weights."""
    if not method.params.params:
        return False
    found = _OfModule(method.params.params[0].name.value)
    walk(method.body, found)
    return not found.whole and found.read <= fields


class _OfModule(cst.CSTVisitor):
    """The attributes of its module that a method reads; whether it does anything else with the module."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.read, self.whole = name, set[str](), False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        if not isinstance(node.value, cst.Name) or node.value.value != self.name:
            walk(node.value, self)
            return False
        self.read.add(node.attr.value)
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        return listed_for_one(node) is None

    def visit_Name(self, node: cst.Name) -> None:
        self.whole |= node.value == self.name
