"""The files that are reached from those named by a user, and which of them have to do with torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migrate.diagnostics import Diagnostic, Fatal
from migrate.files.borrowed import Borrowed, absolute_module, asked_of_modules, borrowed_names, is_of_layers
from migrate.files.imports import (
    SUFFIX,
    Written,
    library_of,
    named_files,
    package_of,
    reached,
    search_path,
    written_imports,
)
from migrate.files.notebook import Notebook
from migrate.files.passed_through import PACKAGE, unused_imports
from migrate.files.source import decode_source, read_bytes

_TORCH = re.compile(r"^\s*(?:import|from)\s+torch", re.MULTILINE)


@dataclass
class Found:
    """A file that is reached."""

    path: Path
    data: bytes
    text: str = ""
    encoding: str = "utf-8"
    notebook: Notebook | None = None
    problem: Diagnostic | None = None
    reached: dict[Written, dict[str, Path]] = field(default_factory=dict)  # import -> module as written -> its place
    passed: dict[Written, str] = field(default_factory=dict)  # imports of which nothing is used -> the file
    borrowed: dict[str, Borrowed] = field(default_factory=dict)  # names of installed packages -> where they are now
    foreign: set[tuple[str, str]] = field(default_factory=set)  # names of other packages: the module, the name
    asked: set[tuple[str, str]] = field(default_factory=set)  # those that it asks modules for, which it imports whole
    names: set[str] = field(default_factory=set)  # Python files that it names in strings
    library: str = ""  # the package that it is part of, where it was named alone and that is an installed library
    torch: bool = False

    @property
    def imports(self) -> dict[str, Path]:
        """Every module that it imports, as it is written: a file or a folder."""
        return {text: path for w, found in self.reached.items() if w not in self.passed for text, path in found.items()}


def uses_torch(path: Path) -> bool:
    """Whether a file imports torch, or looks so."""
    return bool(_TORCH.search(path.read_text(encoding="utf-8", errors="replace")))


def used_files(found: dict[Path, Found], scripts: Sequence[Path]) -> dict[Path, Found]:
    """Without the files that only packages on the way import, and nobody uses."""
    if all(path.name != PACKAGE for path in found) or any(file.problem is not None for file in found.values()):
        return found  # what cannot be read may use anything
    texts = {path: file.text for path, file in found.items()}
    ways = {path: file.reached for path, file in found.items()}
    try:
        unused = unused_imports(texts, ways, scripts, converted_files(found, scripts))
    except (SyntaxError, ValueError, RecursionError):
        return found  # LibCST says where
    for package, skipped in unused.items():
        file = found[package]
        for written in skipped:
            file.passed[written] = max(file.reached[written].values(), key=lambda one: len(one.parts)).name
    used = _closure(scripts, lambda path: found[path].imports.values() if path in found else [])
    return {path: file for path, file in found.items() if path in used}


def independent_parts(files: Sequence[Path]) -> list[list[Path]]:
    """Those of some files that have to do with torch, in parts that import nothing of one another."""
    scripts = [absolute(path) for path in files]
    found = reached_files(scripts, alone=False)
    unread = {path for path, file in found.items() if file.problem is not None}
    wanted = converted_files(found, scripts if len(scripts) == 1 else []) | unread
    neighbours: dict[Path, list[Path]] = {path: [] for path in wanted}
    for path in wanted:
        for other in found[path].imports.values():
            if other in wanted:
                neighbours[path].append(other)
                neighbours[other].append(path)
    parts: list[list[Path]] = []
    seen: set[Path] = set()
    for path in sorted(wanted):
        if path not in seen:
            part = _closure([path], lambda one: neighbours[one])
            seen |= part
            parts.append(sorted(part))
    return parts


def reached_files(scripts: Sequence[Path], alone: bool = True) -> dict[Path, Found]:
    """Some files and all that they reach by imports. `alone`: a single one that cannot be read raises Fatal."""
    beside = scripts if len(scripts) == 1 else []
    found: dict[Path, Found] = {}
    added = [folder for script in beside for folder in _search_path(script)]
    pending = list(reversed(scripts))
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found[path] = _read(path, beside, added, alone=alone and len(scripts) == 1 and path == scripts[0])
        pending += [other for other in found[path].imports.values() if other.suffix == SUFFIX and other not in found]
    return found


def absolute(path: Path) -> Path:
    """A path from the root of the file system, with links as they are."""
    return Path(os.path.abspath(path))


def _read(path: Path, scripts: Sequence[Path], added: Sequence[Path], alone: bool) -> Found:
    name = shown(path)
    try:
        data = read_bytes(Path(name))
        text, encoding, notebook = decode_source(name, data)
        made = Found(path, data, text, encoding, notebook, torch=bool(_TORCH.search(text)))
    except Fatal as error:
        if alone:
            raise
        return Found(path, path.read_bytes() if path.is_file() else b"", problem=error.diagnostic)
    try:
        library = library_of(path) if path in scripts else None
        if library is not None:  # it imports from the library as any script would
            return of_library(made, package_of(path, library))
        added = [*added, *search_path(text, path)]
        for written in written_imports(text):
            made.reached[written] = {t: other for t, other in reached(path, written, scripts, added) if other != path}
        made.names = named_files(text)
        made.borrowed = borrowed_names(text)
        elsewhere = [written for written, ways in made.reached.items() if not ways and not written.dots]
        made.foreign = {(written.module, name) for written in elsewhere for name in written.names}
        whole = {written.module for written in elsewhere if not written.names}
        made.asked = asked_of_modules(text, whole)
    except (SyntaxError, ValueError, RecursionError):
        pass  # LibCST says where
    return made


def of_library(file: Found, package: str) -> Found:
    """A file as one of a library: what it takes are the layers of that. Raises SyntaxError."""
    file.library = package
    taken = [(absolute_module(written, package), written.names) for written in written_imports(file.text)]
    file.foreign = {(module, name) for module, names in taken if is_of_layers(module) for name in names}
    return file


def _search_path(script: Path) -> list[Path]:
    """What a script adds to Python's search path holds for all that it imports."""
    try:
        return search_path(decode_source(str(script), script.read_bytes())[0], script)
    except (Fatal, OSError, SyntaxError, ValueError, RecursionError):
        return []  # reading it will say why


def shown(path: Path) -> str:
    """A path as messages show it: relative to the working directory where it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def converted_files(found: Mapping[Path, Found], scripts: Sequence[Path]) -> set[Path]:
    """What has to do with torch: files that use it, what they import (which may be given tensors), and what imports
    them. A script that was asked for alone is always looked at."""
    importers: dict[Path, list[Path]] = {path: [] for path in found}
    for path, file in found.items():
        for other in file.imports.values():
            importers.setdefault(other, []).append(path)
    using = [path for path, file in found.items() if file.torch] + (list(scripts) if len(scripts) == 1 else [])
    down = _closure(using, lambda path: found[path].imports.values() if path in found else [])
    up = _closure(using, lambda path: importers.get(path, []))
    return {path for path in down | up if path in found}


def _closure(start: Iterable[Path], following) -> set[Path]:
    seen: set[Path] = set()
    pending = list(start)
    while pending:
        path = pending.pop()
        if path not in seen:
            seen.add(path)
            pending += following(path)
    return seen


def imported_first(found: Mapping[Path, Found]) -> list[Path]:
    """The files in an order in which each comes after those that it imports, as far as they do not import it."""
    order: list[Path] = []
    seen: set[Path] = set()
    for start in found:
        stack = [(start, iter(found[start].imports.values()))] if start not in seen else []
        seen.add(start)
        while stack:
            path, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                order.append(path)
                stack.pop()
            elif other in found and other not in seen:
                seen.add(other)
                stack.append((other, iter(found[other].imports.values())))
    return order
