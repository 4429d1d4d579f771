"""Folders that a script adds to Python's search path: `sys.path.insert(0, os.path.join(here, "..", "src"))`.

Worked out from the syntax where that is possible: from strings, `__file__`, and the functions of os.path and pathlib
that people write there. Anything else adds no folder.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Iterator
from pathlib import Path

_KEPT = {"abspath", "realpath", "normpath", "expanduser", "str", "Path", "PurePath", "fspath"}
_METHODS_KEPT = {"resolve", "absolute", "as_posix", "expanduser"}


def added_folders(tree: ast.Module, file: Path) -> list[Path]:
    """The folders that a file adds, absolute. Names stand for what is assigned to them anywhere in the file."""
    known = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found = []
    for value in _added(tree):
        path = _path(value, file, known, 10)
        if path is not None:
            found.append(Path(os.path.normpath(file.parent / path)))
    return found


def _added(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            if ast.unparse(node.func) in ("sys.path.append", "sys.path.insert"):
                yield node.args[-1]
            elif ast.unparse(node.func) == "sys.path.extend" and isinstance(node.args[0], ast.List | ast.Tuple):
                yield from node.args[0].elts


def _path(node: ast.expr, file: Path, known: dict[str, ast.expr], depth: int) -> str | None:
    """The path that an expression gives. `depth`: how far names and calls are still followed."""
    if depth == 0:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        if node.id == "__file__":
            return str(file)
        return _path(known[node.id], file, known, depth - 1) if node.id in known else None
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        above = _path(node.value, file, known, depth - 1)
        return None if above is None else os.path.dirname(above)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        above = _path(node.value.value, file, known, depth - 1)
        number = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return str(Path(above).parents[number]) if above is not None and isinstance(number, int) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
        parts = [_path(side, file, known, depth - 1) for side in (node.left, node.right)]
        joined = "/" if isinstance(node.op, ast.Div) else ""
        return joined.join(part for part in parts if part is not None) if None not in parts else None
    return _called(node, file, known, depth - 1) if isinstance(node, ast.Call) else None


def _called(node: ast.Call, file: Path, known: dict[str, ast.expr], depth: int) -> str | None:
    name = ast.unparse(node.func).split(".")[-1]
    if name in _METHODS_KEPT and isinstance(node.func, ast.Attribute) and not node.args:
        return _path(node.func.value, file, known, depth)
    if name == "getcwd":
        return str(file.parent)
    parts = [_path(argument, file, known, depth) for argument in node.args]
    if not parts or None in parts:
        return None
    given = [part for part in parts if part is not None]
    if name in ("join", "joinpath"):
        return os.path.join(*given)
    if name == "dirname":
        return os.path.dirname(given[0])
    return given[0] if name in _KEPT else None
