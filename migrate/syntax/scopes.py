"""Which names the scopes of a file bind, and which they read of the scopes around them, as Python itself sees it."""

from __future__ import annotations

import symtable
from collections.abc import Iterator


def read_from_outside(text: str) -> set[str]:
    """The names that functions of a file read and do not bind, and all that its top level and its classes read."""
    return {
        one.get_name()
        for table in _tables(text)
        for one in table.get_symbols()
        if one.is_referenced() and (one.is_global() or not isinstance(table, symtable.Function))
    }


def bound_by_scopes(text: str) -> set[str]:
    """The names that the top level of a file or its functions bind. Those of classes are asked of their objects."""
    return {
        one.get_name()
        for table in _tables(text)
        if not isinstance(table, symtable.Class)
        for one in table.get_symbols()
        if one.is_assigned() or one.is_imported() or one.is_parameter()
    }


def _tables(text: str) -> Iterator[symtable.SymbolTable]:
    """All scopes of a file; none of what Python cannot read."""
    try:
        waiting = [symtable.symtable(text, "", "exec")]
    except (SyntaxError, ValueError):
        return
    while waiting:
        table = waiting.pop()
        yield table
        waiting += table.get_children()
