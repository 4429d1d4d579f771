"""What a project takes from an installed package, cut out of the files that define it: the classes and functions
that it names and all that they need, as the text of one file.

Methods that neither the project nor what is cut out names are left behind.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from migrate.files.imports import SUFFIX, parsed
from migrate.machine import NO_OPS

MOST_LINES = 400  # what needs more of its package is a library of its own

_LISTING = re.compile(r"\.(named_)?parameters\(\)")
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


class TooMuch(Exception):
    """What is asked for cannot be cut out."""


@dataclass(frozen=True)
class Parts:
    """The file that some names of a package make, by the module that each is taken from."""

    text: str
    names: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Module:
    """One file of the package: its statements by the names that they bind."""

    name: str  # qualified
    is_package: bool
    text: str
    tree: ast.Module

    @cached_property
    def _bindings(self) -> dict[str, list[ast.stmt]]:
        found: dict[str, list[ast.stmt]] = {}
        for statement in self.tree.body:
            for name in _bound(statement):
                found.setdefault(name, []).append(statement)
        return found

    def binding(self, name: str) -> list[ast.stmt]:
        """The statements at the top that bind a name."""
        return self._bindings.get(name, [])

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that an import takes from, qualified."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        above = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*above, *([node.module] if node.module else [])])


@dataclass
class Extraction:
    """The parts of one package. `folder` is that of the package `root`; `named` are the names that the project uses."""

    root: str
    folder: Path
    named: set[str]
    modules: dict[str, Module | None] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> what of another package, its import
    owners: dict[str, str] = field(default_factory=dict)  # name -> the module that defines it
    parts: dict[int, tuple[Module, ast.stmt]] = field(default_factory=dict)  # in the order in which they must run
    visited: set[int] = field(default_factory=set)

    def take(self, module: str, name: str) -> None:
        """Cuts out a name of a module, and what it needs. Raises TooMuch."""
        found = self._module(module)
        if found is None:
            raise TooMuch
        self._take(found, name, name)

    def text(self) -> str:
        """The file that holds all that was taken. Raises TooMuch."""
        pieces = [self._piece(module, part) for module, part in self.parts.values()]
        made = "\n\n\n".join(piece for piece in ["\n".join(self._imports()), *pieces] if piece)
        if made.count("\n") > MOST_LINES:
            raise TooMuch
        return made + "\n"

    def imports_torch(self, module: str) -> bool:
        """Whether a module of the package names torch."""
        file, _ = self._file(module)
        return file is not None and "import torch" in file.read_text(encoding="utf-8", errors="replace")

    def _imports(self) -> list[str]:
        """The imports of other packages, one line for all that is taken from a module."""
        lines = sorted({line for _, line in self.imports.values()})
        taken = [line.partition(" import ") for line in lines]
        of = {head: [name for one, _, name in taken if one == head] for head, _, _ in taken if head.startswith("from ")}
        plain = [line for line in lines if line.startswith("import ")]
        return [*plain, *(f"{head} import {', '.join(names)}" for head, names in of.items())]

    @property
    def uses_torch(self) -> bool:
        """Whether anything that was taken has to do with torch: it imports that, or goes through parameters."""
        imported = any(bound.partition(".")[0] == "torch" for bound, _ in self.imports.values())
        return imported or any(_LISTING.search(self._piece(*part)) for part in self.parts.values())

    def _take(self, module: Module, name: str, known_as: str) -> None:
        bound = module.binding(name)
        if not bound:
            return self._take_starred(module, name, known_as)
        for statement in bound:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._take_imported(module, statement, name, known_as)
            elif known_as != name or self.owners.setdefault(name, module.name) != module.name:
                raise TooMuch  # two things under one name, or one under two
            else:
                self._follow(module, statement)
        return None

    def _take_imported(self, module: Module, node: ast.Import | ast.ImportFrom, name: str, known_as: str) -> None:
        alias = next(one for one in node.names if (one.asname or one.name.partition(".")[0]) == name)
        source = module.absolute(node) if isinstance(node, ast.ImportFrom) else alias.name
        if source.partition(".")[0] != self.root or f"{source}.{alias.name}" in NO_OPS:
            line = _import(node, source, alias, known_as)
            bound = f"{source}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            if isinstance(node, ast.Import) and known_as != alias.name and not alias.asname:
                self.imports.setdefault(alias.name, (bound, line))  # `import a.b` binds a, as `import a` does
                bound, line = known_as, f"import {known_as}"
            if self.imports.setdefault(known_as, (bound, line))[0] != bound:
                raise TooMuch
            return
        inner = self._module(source) if isinstance(node, ast.ImportFrom) else None
        if inner is None:
            raise TooMuch
        self._take(inner, alias.name, known_as)

    def _take_starred(self, module: Module, name: str, known_as: str) -> None:
        for statement in module.tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                inner = self._module(module.absolute(statement))
                if inner is not None and inner.binding(name):
                    return self._take(inner, name, known_as)
        raise TooMuch

    def _follow(self, module: Module, statement: ast.stmt) -> None:
        """Enters a statement after all that it needs."""
        if id(statement) in self.visited:
            return
        self.visited.add(id(statement))
        self._follow_names(module, self._needed(statement))
        self.parts[id(statement)] = (module, statement)

    def _follow_names(self, module: Module, nodes: Iterable[ast.AST]) -> None:
        for node in [inner for part in nodes for inner in ast.walk(part)]:
            if isinstance(node, ast.Attribute):
                self.named.add(node.attr)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.named.add(node.id)
                if module.binding(node.id):
                    self._take(module, node.id, node.id)

    def _needed(self, statement: ast.stmt) -> Iterator[ast.AST]:
        if isinstance(statement, ast.ClassDef):
            yield from (*statement.bases, *statement.keywords, *statement.decorator_list)
            left = self._left(statement)
            yield from (part for part in statement.body if part not in left)
        else:
            yield statement

    def _left(self, statement: ast.stmt) -> list[ast.FunctionDef]:
        """The methods of a class that nobody names."""
        return [method for method in _methods(statement) if method.name not in self.named]

    def _piece(self, module: Module, statement: ast.stmt) -> str:
        """The lines of a statement, without the methods that nobody needs."""
        lines = module.text.split("\n")
        dropped = {line for method in self._left(statement) for line in _lines(method, lines)}
        kept = [lines[i - 1] for i in _lines(statement, lines) if i not in dropped]
        return "\n".join(_without_gaps(kept)).rstrip()

    def _module(self, name: str) -> Module | None:
        if name not in self.modules:
            self.modules[name] = self._read(name)
        return self.modules[name]

    def _read(self, name: str) -> Module | None:
        file, is_package = self._file(name)
        if file is None:
            return None
        text = file.read_text(encoding="utf-8")
        return Module(name, is_package, text, parsed(text))

    def _file(self, name: str) -> tuple[Path | None, bool]:
        """The file of a module, if it is there, and whether the module is a package."""
        path = self.folder.joinpath(*name.split(".")[1:])
        for file in (path / f"__init__{SUFFIX}", path.with_name(path.name + SUFFIX)):
            if file.is_file():
                return file, file.parent == path
        return None, False


def _methods(statement: ast.stmt) -> list[ast.FunctionDef]:
    """The methods of a class that only a caller who names them needs."""
    body = statement.body if isinstance(statement, ast.ClassDef) else []
    return [m for m in body if isinstance(m, ast.FunctionDef) and m.name != "forward" and not m.name.startswith("__")]


def _import(node: ast.Import | ast.ImportFrom, source: str, alias: ast.alias, known_as: str) -> str:
    """The import statement of one name."""
    plain = alias.name if isinstance(node, ast.ImportFrom) else alias.name.partition(".")[0]
    written = alias.name if known_as == plain else f"{alias.name} as {known_as}"
    return f"from {source} import {written}" if isinstance(node, ast.ImportFrom) else f"import {written}"


def _lines(statement: ast.stmt, lines: list[str]) -> range:
    """The numbers of the lines of a statement, with its decorators and the comments above it."""
    decorators = statement.decorator_list if isinstance(statement, _DEFINITIONS) else []
    first = min([statement.lineno, *(node.lineno for node in decorators)])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    return range(first, (statement.end_lineno or 0) + 1)


def _without_gaps(lines: list[str]) -> Iterator[str]:
    """Lines with no more than one empty line in a row."""
    for before, line in zip(["", *lines], lines, strict=False):
        if line.strip() or before.strip():
            yield line


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement at the top of a file binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names):
            return {alias.asname or alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(names=names):
            return {alias.asname or alias.name for alias in names}
        case ast.Try() | ast.If() | ast.With():
            inner = (node for node in ast.iter_child_nodes(statement))
            return {
                name
                for part in inner
                for one in ([part] if isinstance(part, ast.stmt) else getattr(part, "body", []))
                for name in _bound(one)
            }
        case _:
            names_of = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            return {node.id for node in names_of if isinstance(node.ctx, ast.Store)}


def extracted(
    root: str, folder: Path, wanted: Iterable[tuple[str, str]], asked: Container[tuple[str, str]], named: set[str]
) -> Parts | None:
    """Of the names that a project takes of modules of a package those that can be cut out, with the file that they
    make; None where none can, or none has to do with torch. `asked`: names asked of whole modules, which may be
    anything: those of modules that import torch."""
    reader, pairs = Extraction(root, folder, set()), sorted(wanted)
    of_torch = {module for module in {pair[0] for pair in pairs if pair in asked} if reader.imports_torch(module)}
    names = [pair for pair in pairs if pair not in asked or pair[0] in of_torch]
    names = [pair for pair in names if _cut_out(root, folder, [pair], named) is not None]
    made = _cut_out(root, folder, names, named)
    if made is None or not made.uses_torch:
        return None
    return Parts(
        f"# Parts of {f'{root} {_version(root)}'.rstrip()}, under its licence.\n\n{made.text()}", frozenset(names)
    )


def _cut_out(root: str, folder: Path, wanted: Iterable[tuple[str, str]], named: set[str]) -> Extraction | None:
    """The parts that names need, once every method that any of them names is among them."""
    modules: dict[str, Module | None] = {}
    known, found = set[str](), named
    while True:
        known, made = found, Extraction(root, folder, set(found), modules)
        try:
            for module, name in wanted:
                made.take(module, name)
            made.text()
        except (TooMuch, SyntaxError, RecursionError, UnicodeDecodeError):
            return None
        found = made.named
        if found == known:
            return made


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
