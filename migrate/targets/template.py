"""Templates of the layer table and of the optimizers, filled from a bound call."""

from __future__ import annotations

import functools
import re

import libcst as cst

from migrate.rules.rule import Call
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.targets.converters import CONVERTERS

_HOLE = re.compile(r"\{(\w+)(?::([a-z_]+)(\d?))?(?:\?([^{}]+))?\}")


@functools.cache
def _template(text: str) -> tuple[Expr, tuple[tuple[str, str, int, str], ...]]:
    holes: list[tuple[str, str, int, str]] = []

    def mark(match: re.Match[str]) -> str:
        holes.append((match[1], match[2] or "", int(match[3] or 0), match[4] or ""))
        return f"__hole_{len(holes) - 1}"

    return cst.parse_expression(_HOLE.sub(mark, text)), tuple(holes)


class _Holes(cst.CSTTransformer):
    """Fills the holes of a template; a keyword whose value is the target's own default is left out."""

    def __init__(self, call: Call, holes: tuple[tuple[str, str, int, str], ...]) -> None:
        super().__init__()
        self.values = [self._fill(call, *hole[:3]) for hole in holes]
        self.defaults = [hole[3] for hole in holes]

    @staticmethod
    def _fill(call: Call, name: str, converter: str, count: int) -> Expr:
        return CONVERTERS[converter](call, name, count) if converter else call.node(name)

    def _index(self, node: cst.CSTNode) -> int | None:
        found = re.fullmatch(r"__hole_(\d+)", node.value) if isinstance(node, cst.Name) else None
        return int(found[1]) if found else None

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        index = self._index(original_node)
        return updated_node if index is None else self.values[index]

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg | cst.RemovalSentinel:
        index = self._index(original_node.value)
        if index is not None and updated_node.keyword and self._same(self.values[index], self.defaults[index]):
            return cst.RemoveFromParent()
        return updated_node

    @staticmethod
    def _same(node: Expr, default: str) -> bool:
        if not default:
            return False
        written, meant = nodes.literal(node), nodes.literal(cst.parse_expression(default))
        if isinstance(written, tuple) and written and all(part == written[0] for part in written):
            written = written[0]
        return nodes.code(node) == default or (written is not ... and written == meant and type(written) is type(meant))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        if nodes.dotted(updated_node.func) == "partial" and len(updated_node.args) == 1:
            return updated_node.args[0].value  # nothing left to bind
        updated_node = updated_node.with_changes(func=nodes.parenthesized(updated_node.func))
        if updated_node.args and isinstance(updated_node.args[-1].comma, cst.Comma):
            last = updated_node.args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(args=[*updated_node.args[:-1], last])
        return updated_node

    def leave_BinaryOperation(self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation) -> Expr:
        left, right = nodes.parenthesized(updated_node.left), nodes.parenthesized(updated_node.right)
        return updated_node.with_changes(left=left, right=right)

    def leave_UnaryOperation(self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation) -> Expr:
        return updated_node.with_changes(expression=nodes.parenthesized(updated_node.expression))


def fill(text: str, call: Call) -> Expr:
    """A template of the layer table (or of the optimizers) filled from a bound call."""
    parsed, holes = _template(text)
    filled = parsed.deep_clone().visit(_Holes(call, holes))
    assert isinstance(filled, cst.BaseExpression)
    return filled
