"""Projects: the files that a script reaches by local imports, the unit of conversion.

A script alone is a project of one.

Each file keeps its place below the `root` of the project, in the output too. Files that use no torch, and
neither import nor are imported by one that does, are copied as they are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from migrate.diagnostics import Diagnostic, Fatal
from migrate.files import notebook
from migrate.files.borrowed import Borrowed, installed
from migrate.files.extracted import extracted
from migrate.files.imports import KNOWN, SUFFIX, Written
from migrate.files.passed_through import PACKAGE
from migrate.files.reached_files import (
    Found,
    absolute,
    converted_files,
    imported_first,
    of_library,
    reached_files,
    shown,
    used_files,
)
from migrate.files.source import SourceFile, decode_source, parse, read_bytes
from migrate.known.qualified import FILE
from migrate.library_modules import role
from migrate.lowering import Input
from migrate.syntax.memory import seldom_searched

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
    borrowed: Mapping[str, Borrowed] = field(default_factory=dict)  # names of installed packages -> where they are now


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
            Input(
                member.source,
                member.scope,
                member.links,
                member.unread,
                member.library,
                member.passed,
                member.borrowed,
            )
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


@seldom_searched()
def read_project(files: Sequence[Path]) -> Project:
    """The project of some files: they, and what they reach by imports. Raises Fatal where the only file named cannot be
    read."""
    scripts = [absolute(path) for path in files]
    found = reached_files(scripts)
    found = used_files(found, scripts)
    lowered = converted_files(found, scripts)
    root = _root(found)
    scopes = {path: _scope(path, root) for path in found}
    if len(scripts) == 1:
        scopes[scripts[0]] = ""
    members = _borrowed_files(found, lowered)
    members += [_member(found[path], path in lowered, root, scopes, found) for path in imported_first(found)]
    members += _run_by_name(found, root)
    return Project(root, tuple(members), tuple(scripts), _submodules(found, scopes, root))


def _root(found: Mapping[Path, Found]) -> Path:
    """The folder that all files lie in, and that imports start from: the one above a package whose files import one
    another by its name, or relatively to it."""
    root = Path(os.path.commonpath([path.parent for path in found]))
    relative = False
    for file in found.values():
        for written, ways in file.reached.items():
            relative |= written.dots > 0
            for module, path in ways.items() if not written.dots else ():
                inner = path.parent if path.name == PACKAGE else path
                start = inner.parents[module.count(".")]
                root = start if root.is_relative_to(start) else root
    while relative and (root / PACKAGE).is_file():
        root = root.parent
    return root


def _scope(path: Path, root: Path) -> str:
    """The name of the module scope of a file or a folder: see `migrate.known.qualified`."""
    name = path.relative_to(root).with_suffix("").as_posix() if path.suffix == SUFFIX else f"{path.relative_to(root)}/"
    return name.replace(".", "-").replace(FILE, "-") + FILE


def _member(file: Found, lowered: bool, root: Path, scopes: Mapping[Path, str], found: Mapping[Path, Found]) -> Member:
    place = file.path.relative_to(root).as_posix()
    copied = Member(file.path, place, file.data, problem=file.problem)
    if file.problem is not None or not lowered:
        return copied
    try:
        source = parse(shown(file.path), file.text, file.encoding, file.notebook)
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
    links |= {one.module: one.module + FILE for one in file.borrowed.values()}
    scope = scopes[file.path]
    return Member(
        file.path,
        place,
        file.data,
        source,
        scope,
        links,
        unread,
        file.library,
        passed=file.passed,
        borrowed=file.borrowed,
    )


def _borrowed_files(found: Mapping[Path, Found], lowered: set[Path]) -> list[Member]:
    """The files of installed packages that files of the project take models from. A name that the project has for a
    file of its own borrows nothing."""
    made: dict[Path, Member] = {}
    own = {path.stem for path in found}
    parts = extracted_parts({path: file for path, file in found.items() if path in lowered})
    for path, file in found.items():
        taken = (file.foreign | file.asked) & parts.keys()
        file.borrowed |= {f"{module}.{name}": parts[module, name] for module, name in taken}
        file.borrowed = {q: one for q, one in file.borrowed.items() if path in lowered and one.module not in own}
        for one in file.borrowed.values():
            if one.path in made:
                continue
            member = _borrowed_member(one)
            made |= {each.path: _borrowed_member(each) for each in member.borrowed.values()}
            made[one.path] = member
    return list(made.values())


def _borrowed_member(one: Borrowed) -> Member:
    """A file of an installed package, with the layers that it takes from the rest of that where it is one of models."""
    data = one.parts.encode() if one.parts else read_bytes(one.path)
    text, encoding, _ = decode_source(one.shown, data)
    source = parse(one.shown, text, encoding)
    layers: dict[str, Borrowed] = {}
    if not one.parts:
        file = of_library(Found(one.path, data, text, encoding, torch=True), one.package)
        layers = {f"{module}.{name}": made for (module, name), made in extracted_parts({one.path: file}).items()}
    links = {each.module: each.module + FILE for each in layers.values()}
    place = f"{one.module}{SUFFIX}"
    return Member(one.path, place, data, source, one.module + FILE, links, library=one.package, borrowed=layers)


def extracted_parts(found: Mapping[Path, Found]) -> dict[tuple[str, str], Borrowed]:
    """What files take from installed packages that are written with torch, cut out of them: (module, name) -> where it
    is now."""
    asked = {pair for file in found.values() if file.torch for pair in file.asked}
    wanted = {pair for file in found.values() if file.torch for pair in file.foreign} | asked
    named = {word for file in found.values() for word in re.findall(r"\w+", file.text)}
    own = {file.library.partition(".")[0]: file for file in found.values() if file.library}
    made: dict[tuple[str, str], Borrowed] = {}
    for root in sorted({m.partition(".")[0] for m, _ in wanted} - sys.stdlib_module_names - (KNOWN - own.keys())):
        pairs = {
            (module, name) for module, name in wanted if module.partition(".")[0] == root and not role(f"{root}.{name}")
        }
        folders = [_folder_of(own[root])] if root in own else installed(root)
        parts = next((p for folder in folders if (p := extracted(root, Path(folder), pairs, asked, named))), None)
        if parts is not None:
            module = f"{root}_modules"
            path = Path(f"{module}{SUFFIX}")
            made |= {pair: Borrowed(path, root, module, pair[1], parts.text) for pair in parts.names}
    return made


def _folder_of(file: Found) -> Path:
    """The folder of the library that a file is part of."""
    return file.path.parents[file.library.count(".")]


def _run_by_name(found: Mapping[Path, Found], root: Path) -> list[Member]:
    """Python files that a file of the project names in a string, to run them: they are copied as they are."""
    made: dict[Path, Member] = {}
    for file in found.values():
        for name in file.names:
            path = absolute(file.path.parent / name)
            inside = path.is_relative_to(root) and path not in found and path.is_file()
            if inside:
                made[path] = Member(path, path.relative_to(root).as_posix(), path.read_bytes())
    return list(made.values())


def _submodules(found: Mapping[Path, Found], scopes: Mapping[Path, str], root: Path) -> dict[str, dict[str, str]]:
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
