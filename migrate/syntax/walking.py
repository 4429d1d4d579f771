"""Walking over a syntax tree without changing it.

LibCST's own `visit` makes every node anew on its way, and goes through all white space. Most of what is asked of a
tree needs neither.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar, cast

import libcst as cst

from migrate.syntax.remembering import remembered

NodeType = TypeVar("NodeType", bound=cst.CSTNode)

_SILENT = {
    "lpar", "rpar", "comma", "semicolon", "newline", "equal", "colon", "dot", "lbracket", "rbracket", "lbrace",
    "rbrace", "operator", "header", "footer", "leading_lines", "trailing_whitespace", "lines_after_decorators",
    "indent",
}  # fmt: skip
# Where the order of a node's fields is not that of the source.
_ORDERS: dict[type[cst.CSTNode], list[str]] = {
    cst.IfExp: ["body", "test", "orelse"],
    cst.ClassDef: ["decorators", "name", "bases", "keywords", "body"],
}


def walk(node: cst.CSTNode, visitor: cst.CSTVisitor) -> None:
    """Shows the nodes of a tree to a visitor's `visit_…` methods, in the order of the source: all but white space,
    punctuation and operators. As with LibCST, those that answer False keep their children to themselves."""
    visit = _handler(type(visitor), type(node))
    if visit is not None and visit(visitor, node) is False:
        return
    for name in parts(type(node)):
        value = getattr(node, name)
        if is_node(type(value)):
            walk(value, visitor)
        elif isinstance(value, list | tuple):
            for child in value:
                walk(child, visitor)


def every(
    node: cst.CSTNode, kinds: type[NodeType] | tuple[type[NodeType], ...], closed: type | tuple[type, ...] = ()
) -> Iterator[NodeType]:
    """The nodes of some kinds in a tree, outer ones first, in the order of the source, but for those inside of `closed`
    kinds."""
    if not closed:
        yield from cast("list[NodeType]", [one for one in _outer_first(node) if _is(type(one), kinds)])
        return
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if _is(type(one), kinds):
            yield cast(NodeType, one)
        if not _is(type(one), closed):
            waiting += reversed(_children(one))


@remembered
def _outer_first(node: cst.CSTNode) -> list[cst.CSTNode]:
    """All nodes of a tree. Rules ask for those of one kind and another in the same statements, round after round."""
    found: list[cst.CSTNode] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += reversed(_children(one))
    return found


def _children(node: cst.CSTNode) -> list[cst.CSTNode]:
    children: list[cst.CSTNode] = []
    for name in parts(type(node)):
        value = getattr(node, name)
        sort = type(value)
        if sort is list or sort is tuple:
            children += value
        elif is_node(sort):
            children.append(value)
    return children


@functools.cache
def _is(node: type, kinds: type | tuple[type, ...]) -> bool:
    """`issubclass`, remembered: LibCST's classes are abstract, and Python takes long to tell of those."""
    return issubclass(node, kinds)


@functools.cache
def is_node(kind: type) -> bool:
    """Whether values of a type are nodes of a syntax tree."""
    return issubclass(kind, cst.CSTNode)


@functools.cache
def _handler(visitor: type[cst.CSTVisitor], node: type[cst.CSTNode]) -> Callable[[Any, cst.CSTNode], Any] | None:
    name = f"visit_{node.__name__}"
    return getattr(visitor, name) if getattr(visitor, name, None) is not getattr(cst.CSTVisitor, name) else None


@functools.cache
def parts(node: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a sort of nodes that hold code, in the order of the source."""
    if node in _ORDERS:
        return tuple(_ORDERS[node])
    return tuple(f.name for f in fields(node) if f.name not in _SILENT and not f.name.startswith("whitespace"))
