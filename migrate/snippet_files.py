"""The snippets: JAX functions and classes that are copied into an output under a name, with the snippets they need."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Statement

FOLDER = Path(__file__).parent / "snippets"
_PACKAGE = "migrate.snippets."


def text(file: str) -> str:
    """A snippet as it stands in its file."""
    return (FOLDER / f"{file}.py").read_text(encoding="utf-8")


@functools.cache
def _module(file: str) -> cst.Module:
    return cst.parse_module(text(file))


@functools.cache
def needs(file: str) -> tuple[str, ...]:
    """The other snippets that a snippet imports."""
    found = []
    for line in _module(file).body:
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if isinstance(small, cst.ImportFrom) and small.module is not None:
            name = nodes.dotted(small.module) or ""
            if name.startswith(_PACKAGE):
                found.append(name.removeprefix(_PACKAGE))
    return tuple(found)


def with_needs(files: tuple[str, ...]) -> tuple[str, ...]:
    """Snippets and everything that they need."""
    found = list(files)
    for file in found:
        found += [other for other in needs(file) if other not in found]
    return tuple(found)


def definition(file: str, name: str, names: Mapping[str, str]) -> list[Statement]:
    """What a snippet file defines, without its imports, as `name`, which the names of its other definitions contain.

    `names`: snippet -> its name in the output.
    """
    made: list[Statement] = []
    for statement in _module(file).body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            called = {other: names[other] for other in needs(file)} | {file: name}  # it may call itself
            renamed: dict[str, nodes.Expr] = {one: nodes.name(made) for one, made in called.items() if made != one}
            body = nodes.substituted(statement, renamed) if renamed else statement
            assert isinstance(body, cst.FunctionDef | cst.ClassDef)
            made.append(body.with_changes(name=cst.Name(statement.name.value.replace(file, name))))
    return made
