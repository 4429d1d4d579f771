"""Projects: the files that a script reaches by local imports, the unit of conversion.

A script alone is a project of one.

Each file keeps its place below the `root` of the project, in the output too. Files that use no torch, and
neither import nor are imported by one that does, are copied as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from migrate import notebook
from migrate.diagnostics import Diagnostic, Fatal
from migrate.imports import (
    SUFFIX,
    Written,
    library_of,
    named_files,
    package_of,
    reached,
    search_path,
    written_imports,
)
from migrate.lowering import Input
from migrate.notebook import Notebook
from migrate.passed_through import PACKAGE, unused_imports
from migrate.qualified import FILE
from migrate.source import SourceFile, decode_source, parse, read_bytes

_TORCH = re.compile(r"^\s*(?:import|from)\s+torch", re.MULTILINE)

SUFFIXES = (SUFFIX, notebook.SUFFIX)

# Folders that hold no code of a project's own.
LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "env", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache"}
    | {".ruff_cache", ".tox", ".nox", ".eggs", "site-packages", ".ipynb_checkpoints", "wandb"}
)


@dataclass(frozen=True)
class Member:
    """One Python file of a project. `source` is None where it is copied as it is: `problem` says why, where that is
    a finding."""

    path: Path
    place: str  # below the root, with slashes
    data: bytes
    source: SourceFile | None = None
    scope: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    library: str = ""  # the package that it is part of, where that is an installed library
    problem: Diagnostic | None = None
    passed: Mapping[Written, str] = field(default_factory=dict)  # imports that go: the file that nothing is used of


@dataclass(frozen=True)
class Project:
    """Files, those that others import first. `scripts` are those that were asked for."""

    root: Path
    members: tuple[Member, ...]
    scripts: tuple[Path, ...]
    submodules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def inputs(self) -> list[Input]:
        """The files to lower."""
        return [
            Input(member.source, member.scope, member.links, member.unread, member.library, member.passed)
            for member in self.members
            if member.source
        ]

    def with_unread(self, unread: Mapping[str, str]) -> Project:
        """The project of which some imports are known not to be converted."""
        return replace(self, members=tuple(replace(member, unread=unread) for member in self.members))

    def components(self) -> Sequence[Project]:
        """The parts of the project that share no file: each is lowered on its own. What is only copied comes last."""
        by_scope = {member.scope: member for member in self.members if member.source}
        group = {scope: scope for scope in by_scope}

        def leader(scope: str) -> str:
            while group[scope] != scope:
                group[scope] = scope = group[group[scope]]
            return scope

        for member in by_scope.values():
            for scope in member.links.values():
                if scope in group:
                    group[leader(scope)] = leader(member.scope)
        parts: dict[str, list[Member]] = {}
        for member in by_scope.values():
            parts.setdefault(leader(member.scope), []).append(member)
        copied = [member for member in self.members if member.source is None]
        groups = [*parts.values(), copied] if copied else list(parts.values())
        return [replace(self, members=tuple(members)) for members in groups]


def single(source: SourceFile) -> Project:
    """A project of one file, whose imports are not followed."""
    path = Path(source.path)
    member = Member(path, path.name, source.text.encode(source.encoding), source)
    return Project(path.parent, (member,), (path,))


def uses_torch(path: Path) -> bool:
    """Whether a file imports torch, or looks so."""
    return bool(_TORCH.search(path.read_text(encoding="utf-8", errors="replace")))


def python_files(paths: Iterable[Path], without: Iterable[Path] = (), exclude: Sequence[str] = ()) -> list[Path]:
    """The Python files named by paths: files as they are, folders with all that is in them but hidden folders,
    environments, the folders `without`, and what matches a pattern of `exclude`."""
    skipped = {path.resolve() for path in without}
    found: list[Path] = []
    for path in paths:
        below = _below(path, skipped) if path.is_dir() else [path]
        found += [file for file in below if file == path or not _matches(file.relative_to(path), exclude)]
    return list(dict.fromkeys(found))


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    """Whether a path below a folder, or a folder above it, matches a pattern such as `tests` or `*_pb2.py`."""
    above = [path, *path.parents][:-1]
    return any(fnmatch(p.as_posix(), pattern) or fnmatch(p.name, pattern) for p in above for pattern in patterns)


def _below(folder: Path, skipped: set[Path]) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in LEFT_OUT and not name.startswith(".") and Path(here, name).resolve() not in skipped
        )
        yield from (Path(here, name) for name in sorted(files) if name.endswith(SUFFIXES))


@dataclass
class _Found:
    """A file while the project is being read."""

    path: Path
    data: bytes
    text: str = ""
    encoding: str = "utf-8"
    notebook: Notebook | None = None
    problem: Diagnostic | None = None
    reached: dict[Written, dict[str, Path]] = field(default_factory=dict)  # import -> module as written -> its place
    passed: dict[Written, str] = field(default_factory=dict)  # imports of which nothing is used -> the file
    names: set[str] = field(default_factory=set)  # Python files that it names in strings
    library: str = ""  # the package that it is part of, where it was named alone and that is an installed library
    torch: bool = False

    @property
    def imports(self) -> dict[str, Path]:
        """Every module that it imports, as it is written: a file or a folder."""
        return {text: path for w, found in self.reached.items() if w not in self.passed for text, path in found.items()}


def read_project(files: Sequence[Path]) -> Project:
    """The project of some files: they, and what they reach by imports. Raises Fatal where the only file named cannot be
    read."""
    scripts = [_absolute(path) for path in files]
    found = _reached(scripts)
    found = _used(found, scripts)
    lowered = _lowered(found, scripts)
    root = Path(os.path.commonpath([path.parent for path in found]))
    scopes = {path: _scope(path, root) for path in found}
    if len(scripts) == 1:
        scopes[scripts[0]] = ""
    members = [_member(found[path], path in lowered, root, scopes, found) for path in _imported_first(found)]
    members += _run_by_name(found, root)
    return Project(root, tuple(members), tuple(scripts), _submodules(found, scopes, root))


def _used(found: dict[Path, _Found], scripts: Sequence[Path]) -> dict[Path, _Found]:
    """Without the files that only packages on the way import, and nobody uses."""
    if all(path.name != PACKAGE for path in found) or any(file.problem is not None for file in found.values()):
        return found  # what cannot be read may use anything
    texts = {path: file.text for path, file in found.items()}
    ways = {path: file.reached for path, file in found.items()}
    try:
        unused = unused_imports(texts, ways, scripts, _lowered(found, scripts))
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
    scripts = [_absolute(path) for path in files]
    found = _reached(scripts, alone=False)
    unread = {path for path, file in found.items() if file.problem is not None}
    wanted = _lowered(found, scripts if len(scripts) == 1 else []) | unread
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


def _reached(scripts: Sequence[Path], alone: bool = True) -> dict[Path, _Found]:
    """Some files and all that they reach by imports. `alone`: a single one that cannot be read raises Fatal."""
    beside = scripts if len(scripts) == 1 else []
    found: dict[Path, _Found] = {}
    added = [folder for script in beside for folder in _search_path(script)]
    pending = list(reversed(scripts))
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found[path] = _read(path, beside, added, alone=alone and len(scripts) == 1 and path == scripts[0])
        pending += [other for other in found[path].imports.values() if other.suffix == SUFFIX and other not in found]
    return found


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _scope(path: Path, root: Path) -> str:
    """The name of the module scope of a file or a folder: see `migrate.qualified`."""
    name = path.relative_to(root).with_suffix("").as_posix() if path.suffix == SUFFIX else f"{path.relative_to(root)}/"
    return name.replace(".", "-").replace(FILE, "-") + FILE


def _read(path: Path, scripts: Sequence[Path], added: Sequence[Path], alone: bool) -> _Found:
    shown = _shown(path)
    try:
        data = read_bytes(Path(shown))
        text, encoding, notebook = decode_source(shown, data)
        made = _Found(path, data, text, encoding, notebook, torch=bool(_TORCH.search(text)))
    except Fatal as error:
        if alone:
            raise
        return _Found(path, path.read_bytes() if path.is_file() else b"", problem=error.diagnostic)
    try:
        library = library_of(path) if path in scripts else None
        if library is not None:  # it imports from the library as any script would
            made.library = package_of(path, library)
            return made
        added = [*added, *search_path(text, path)]
        for written in written_imports(text):
            made.reached[written] = {t: other for t, other in reached(path, written, scripts, added) if other != path}
        made.names = named_files(text)
    except (SyntaxError, ValueError, RecursionError):
        pass  # LibCST says where
    return made


def _search_path(script: Path) -> list[Path]:
    """What a script adds to Python's search path holds for all that it imports."""
    try:
        return search_path(decode_source(str(script), script.read_bytes())[0], script)
    except (Fatal, OSError, SyntaxError, ValueError, RecursionError):
        return []  # reading it will say why


def _shown(path: Path) -> str:
    """A path as messages show it: relative to the working directory where it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _lowered(found: Mapping[Path, _Found], scripts: Sequence[Path]) -> set[Path]:
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


def _imported_first(found: Mapping[Path, _Found]) -> list[Path]:
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


def _member(
    file: _Found, lowered: bool, root: Path, scopes: Mapping[Path, str], found: Mapping[Path, _Found]
) -> Member:
    place = file.path.relative_to(root).as_posix()
    copied = Member(file.path, place, file.data, problem=file.problem)
    if file.problem is not None or not lowered:
        return copied
    try:
        source = parse(_shown(file.path), file.text, file.encoding, file.notebook)
    except Fatal as error:
        file.problem = error.diagnostic
        return replace(copied, problem=error.diagnostic)
    links = {text: _scope(p, root) if p not in scopes else scopes[p] for text, p in file.imports.items()}
    unread = {}
    for text, path in file.imports.items():
        problem = found[path].problem if path in found else None
        if problem is not None:
            unread[text] = f"{problem.path} {'cannot be parsed' if problem.code == 'MIG001' else 'cannot be read'}"
    links = {text: scope for text, scope in links.items() if text not in unread}
    scope = scopes[file.path]
    return Member(file.path, place, file.data, source, scope, links, unread, file.library, passed=file.passed)


def _run_by_name(found: Mapping[Path, _Found], root: Path) -> list[Member]:
    """Python files that a file of the project names in a string, to run them: they are copied as they are."""
    made: dict[Path, Member] = {}
    for file in found.values():
        for name in file.names:
            path = _absolute(file.path.parent / name)
            inside = path.is_relative_to(root) and path not in found and path.is_file()
            if inside:
                made[path] = Member(path, path.relative_to(root).as_posix(), path.read_bytes())
    return list(made.values())


def _submodules(found: Mapping[Path, _Found], scopes: Mapping[Path, str], root: Path) -> dict[str, dict[str, str]]:
    """What each package holds: name -> module scope."""
    made: dict[str, dict[str, str]] = {}
    reachable = {path for file in found.values() for path in file.imports.values()} | set(found)
    for path in reachable:
        inner = path.parent if path.name == "__init__.py" else path
        folder = inner.parent
        if not folder.is_relative_to(root):
            continue
        package = folder / "__init__.py" if (folder / "__init__.py") in found else folder
        scope = scopes.get(path) or (_scope(path, root) if path not in scopes else "")
        if package not in scopes and package not in reachable:
            continue
        made.setdefault(scopes.get(package) or _scope(package, root), {})[inner.stem] = scope
    return made
