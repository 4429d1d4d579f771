"""Lengths that a constructor insists on: `if len(widths) != 5: raise ValueError(...)`."""

from __future__ import annotations

import libcst as cst

from migrate.lowering.modules.constructors import constant
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def checked_items(cls: cst.ClassDef, init: cst.FunctionDef, fields: set[str], node: Expr) -> list[Expr] | None:
    """The items of a constructor's argument, of an attribute that is just that, or of the rest of either
    (`widths[1:]`), where the constructor accepts one length alone; None of anything else."""
    whole, start = _rest(node)
    path = nodes.dotted(whole) or ""
    meant = constant(cls, init, path) if path.startswith("self.") else whole
    name = meant.value if isinstance(meant, cst.Name) and meant.value in fields else ""
    length = _length(init, name) if name and not _changes(init, name) else None
    if length is None:
        return None
    return [nodes.expression(f"{path}[{number}]") for number in range(start, length)]


def _rest(node: Expr) -> tuple[Expr, int]:
    """What `widths[1:]` is the rest of, and where it starts."""
    part = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    if isinstance(node, cst.Subscript) and isinstance(part, cst.Slice) and part.lower and not (part.upper or part.step):
        start = nodes.literal(part.lower)
        if type(start) is int and start >= 0:
            return node.value, start
    return node, 0


def _length(init: cst.FunctionDef, name: str) -> int | None:
    """The one length that an argument may have."""
    for statement in suites.suite_of(init.body.body):
        if isinstance(statement, cst.If):
            body = suites.suite_of(statement.body.body)
            test, wanted = statement.test, cst.NotEqual
            raises = len(body) == 1 and any(every(body[0], cst.Raise)) and statement.orelse is None
        else:
            small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
            raises, wanted = isinstance(small, cst.Assert), cst.Equal
            test = small.test if isinstance(small, cst.Assert) else None
        if raises and isinstance(test, cst.Comparison) and nodes.code(test.left) == f"len({name})":
            compared = test.comparisons[0]
            length = nodes.literal(compared.comparator)
            if len(test.comparisons) == 1 and isinstance(compared.operator, wanted) and type(length) is int:
                return length
    return None


def _changes(init: cst.FunctionDef, name: str) -> bool:
    """Whether a constructor binds an argument to something else, or calls methods of it."""
    changed = name in usage.changes(init.body) or name in usage.stores(init.body)
    return changed or any(path.startswith(f"{name}.") for path in usage.paths(init.body))
