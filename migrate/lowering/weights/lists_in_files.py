"""Lists in the files of a script: Flax keeps them as dicts by number, and a script that reads one goes on with it."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrate.known.kinds import UNKNOWN, Items, Kind
from migrate.known.weight_kinds import CHECKPOINT
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_OF_LISTS = frozenset({"append", "extend", "insert"})


def note_lists(scope: Scope, items: Iterable[tuple[object, Expr]]) -> None:
    """Notes which entries of a dict that a script saves are lists and tuples."""
    lists = scope.script.found_saved_lists
    for key, value in items:
        if isinstance(key, str):
            made = _type_of(scope.kind_of(value), value)
            lists[key] = made if lists.get(key, made) == made else ""


def _type_of(kind: Kind, node: Expr) -> str:
    if isinstance(kind, Items):
        return kind.type if kind.type in ("list", "tuple") else ""
    return "list" if isinstance(node, cst.List | cst.ListComp) else "tuple" if isinstance(node, cst.Tuple) else ""


def list_from_file(scope: Scope, node: cst.Subscript, base: Value) -> Value | None:
    """`checkpoint["sizes"]` of a list, or a tuple, that the script saves under that name; None for other entries."""
    key = nodes.looked_up(node)
    made = scope.script.saved_lists.get(key) if isinstance(key, str) and base.kind == CHECKPOINT else None
    if not made:
        return None
    return _values_of(node.with_changes(value=base.node), made)


def with_lists_from_files(scope: Scope, target: cst.CSTNode, node: Expr, value: Value) -> Value:
    """`history = checkpoint["history"]` of what is a list elsewhere in the function: its items. Several of such names
    may stand in a tuple; other values are as they are."""
    if isinstance(target, cst.Tuple) and isinstance(node, cst.Tuple) and isinstance(value.node, cst.Tuple):
        made = [
            one.with_changes(value=with_lists_from_files(scope, name.value, read.value, Value(one.value, UNKNOWN)).node)
            for name, read, one in zip(target.elements, node.elements, value.node.elements, strict=False)
        ]
        return Value(value.node.with_changes(elements=made), value.kind)
    name = nodes.dotted(target)
    if name is None or not isinstance(node, cst.Subscript) or scope.kind_of(node.value) != CHECKPOINT:
        return value
    if not isinstance(value.node, cst.Subscript) or not _is_list(name, scope.blocks[0].statements):
        return value
    return _values_of(value.node, "list")


def _values_of(entry: Expr, made: str) -> Value:
    """A list, or a tuple, of which a file holds the dict by number."""
    return Value(nodes.call(made, nodes.expression("{x}.values()", x=entry)), Items(None, UNKNOWN, made))


def _is_list(name: str, statements: Iterable[cst.CSTNode]) -> bool:
    """Whether statements make a list of that name, or change it as only lists are."""
    for statement in statements:
        if any(
            method.attr.value in _OF_LISTS and nodes.dotted(method.value) == name
            for method in usage.methods_called(statement)
        ):
            return True
        for line in every(statement, cst.Assign):
            if isinstance(line.value, cst.List) and any(nodes.dotted(one.target) == name for one in line.targets):
                return True
    return False
