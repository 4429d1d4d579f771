"""What is promised of every output, checked before it is written."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Iterator

from migrate.diagnostics import Diagnostic


def compiles(path: str, text: str) -> list[Diagnostic]:
    """Whether the output is valid Python; if not, that is a bug of the rewriter (MIG900)."""
    try:
        compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return [Diagnostic(path, 0, 0, "MIG900", f"the output does not compile: {error}")]
    return []


def undefined(path: str, before: str, after: str, refused: frozenset[str]) -> list[Diagnostic]:
    """Names that the output reads and nothing binds, though the input bound them. What a refused statement would have
    bound has been reported there."""
    lost = _unbound(path, after) - _unbound(path, before) - refused
    return [
        Diagnostic(path, 0, 0, "MIG305", f"the output reads `{name}`, which nothing binds") for name in sorted(lost)
    ]


def _unbound(path: str, text: str) -> set[str]:
    """Global names that some scope reads and neither the module nor Python binds."""
    try:
        table = symtable.symtable(text, path, "exec")
    except SyntaxError:
        return set()
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
    special = {"__file__", "__name__", "__doc__", "__spec__", "__builtins__", "__path__", "__annotations__"}
    return {name for name in read - bound - special if not hasattr(builtins, name)}


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)
