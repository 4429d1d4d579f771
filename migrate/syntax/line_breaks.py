"""Expressions that run over several lines: what stood between the parentheses of a call needs its own without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import libcst as cst

from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

# Where an expression of a simple or compound statement stands without brackets of its own.
_HELD = {
    cst.Assign: ("value",), cst.AnnAssign: ("value",), cst.AugAssign: ("value",), cst.Return: ("value",),
    cst.Expr: ("value",), cst.Assert: ("test", "msg"), cst.Raise: ("exc",), cst.If: ("test",), cst.While: ("test",),
    cst.For: ("iter",), cst.WithItem: ("item",),
}  # fmt: skip
# What of an expression is inside its own brackets.
_BRACKETED = {
    cst.Call: {"args", "whitespace_before_args"},
    cst.Subscript: {"slice", "lbracket", "rbracket"},
}


def parenthesised(module: cst.Module) -> cst.Module:
    """The module with parentheses around expressions that would end at a line break inside them."""
    holders = every(module, tuple(_HELD), closed=cst.BaseExpression)
    held = (getattr(node, name) for node in holders for name in _HELD[type(node)])
    found = {one for one in held if isinstance(one, cst.BaseExpression) and _breaks(one)}
    return cst.ensure_type(module.visit(_Wrapper(found)), cst.Module) if found else module


class _Wrapper(cst.CSTTransformer):
    def __init__(self, wanted: set[Expr]) -> None:
        super().__init__()
        self.wanted = wanted

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> cst.CSTNodeT:
        if original_node not in self.wanted:
            return updated_node
        return updated_node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _breaks(node: cst.CSTNode) -> bool:
    """Whether a line ends inside an expression, outside of all brackets."""
    if isinstance(node, cst.ParenthesizedWhitespace):
        return True
    if isinstance(node, cst.ConcatenatedString):
        return not node.lpar and (_breaks(node.whitespace_between) or _breaks(node.right))
    if isinstance(node, cst.BaseList | cst.BaseSet | cst.BaseDict | cst.GeneratorExp | cst.BaseString):
        return False
    if getattr(node, "lpar", ()):
        return False
    inside = _BRACKETED.get(type(node), set())
    return any(_breaks(child) for name, child in _children(node) if name not in inside)


def _children(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    for field in fields(node):
        value = getattr(node, field.name)
        for child in value if isinstance(value, list | tuple) else [value]:
            if isinstance(child, cst.CSTNode):
                yield field.name, child
