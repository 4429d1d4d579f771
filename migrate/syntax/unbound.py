"""Global names that a text reads and nothing in it binds."""

from __future__ import annotations

import builtins
import functools
import re
import symtable
from collections.abc import Iterator

_SPECIAL = {"__file__", "__name__", "__doc__", "__spec__", "__builtins__", "__path__", "__annotations__"}
_UNSEEN = re.compile(r"\bimport\s*\(?\s*\*|\b(globals|exec)\s*\(")  # what binds names that the text does not show


@functools.lru_cache(256)
def unbound(path: str, text: str) -> frozenset[str]:
    """Global names that some scope reads and neither the module nor Python binds; none where the text is no Python."""
    try:
        table = symtable.symtable(text, path, "exec")
    except SyntaxError:
        return frozenset()
    scopes = list(_scopes(table))
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    bound |= {
        s.get_name() for scope in scopes for s in scope.get_symbols() if s.is_declared_global() and s.is_assigned()
    }
    read = {
        symbol.get_name()
        for scope in scopes
        for symbol in scope.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or scope is table)
    }
    return frozenset(name for name in read - bound - _SPECIAL if not hasattr(builtins, name))


@functools.lru_cache(256)
def surely_unbound(path: str, text: str) -> frozenset[str]:
    """The same, where nothing binds names that the text does not show."""
    return frozenset() if _UNSEEN.search(text) else unbound(path, text)


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)
