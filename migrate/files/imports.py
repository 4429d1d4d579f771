"""Which files an import statement reaches in its own project."""

from __future__ import annotations

import ast
import functools
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from migrate.apis import PACKAGES
from migrate.files.search_paths import added_folders

_MARKERS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")  # of the top folder of a project
_ABOVE = 2  # how many folders above a file are searched where nothing marks the top of its project
_FAR_ABOVE = 8  # and where something does
SUFFIX = ".py"
# Packages of which the rewriter knows what their parts mean, or that have nothing to do with torch.
KNOWN = frozenset({*PACKAGES, "einops", "accelerate", "transformers", "numpy", "tqdm", "rich"})


@dataclass(frozen=True)
class Written:
    """An import as it is written: the dots in front, the module, the names taken from it (none for `import a.b`)."""

    dots: int
    module: str
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The module as an import statement spells it."""
        return "." * self.dots + self.module

    @staticmethod
    def of(node: ast.AST) -> list[Written]:
        """The imports that a statement is; none for any other node."""
        if isinstance(node, ast.Import):
            return [Written(0, alias.name) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            return [Written(node.level, node.module or "", tuple(alias.name for alias in node.names))]
        return []


def written_imports(text: str) -> list[Written]:
    """Every import of a file, those inside functions too. Raises SyntaxError."""
    return [written for node in ast.walk(parsed(text)) for written in Written.of(node)]


def named_files(text: str) -> set[str]:
    """The Python files that string constants of a file name: scripts also run one another by `exec(open(...))`."""
    constants = (node.value for node in ast.walk(parsed(text)) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str) and value.endswith(SUFFIX) and len(value) < 200}


def search_path(text: str, file: Path) -> list[Path]:
    """The folders that a file adds to Python's search path."""
    return added_folders(parsed(text), file) if "sys.path" in text else []


@functools.lru_cache(maxsize=2)
def parsed(text: str) -> ast.Module:
    """The syntax tree of a file. Raises SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a user's string is none of our business
        return ast.parse(text.lstrip("\ufeff"))


def reached(
    file: Path, written: Written, scripts: Iterable[Path], added: Iterable[Path] = ()
) -> Iterator[tuple[str, Path]]:
    """The files and packages of the project that an import reaches: the module as it is written, and its file, the
    `__init__.py` of a package, or the folder of a package that has none. `a.b` reaches `a` as well.

    Looked for where Python looks, as far as that can be told from the files: in the folders that were `added` to the
    search path, beside the scripts, at the root of the
    package that the file is in, then in the folders above, where packages lie that are installed in place.
    """
    parts = written.module.split(".") if written.module else []
    if written.dots:
        folder = functools.reduce(lambda path, _: path.parent, range(written.dots), file)
        if not parts:
            package = _module_at(folder.parent, [folder.name])
            if package is not None:
                yield written.text, package
        base: Path | None = folder
    else:
        base = next((f for f in _folders(file, scripts, added, parts[0]) if _reaches(f, parts, written.names)), None)
    if base is None:
        return
    for count in range(1, len(parts) + 1):
        found = _module_at(base, parts[:count])
        if found is None and count < len(parts) and base.joinpath(*parts[:count]).is_dir():
            found = base.joinpath(*parts[:count])  # holds folders only
        if found is None:
            return
        yield "." * written.dots + ".".join(parts[:count]), found
    for name in written.names:
        found = _module_at(base, [*parts, name])
        if found is not None:
            yield f"{written.text}{'.' if parts else ''}{name}", found


def _folders(file: Path, scripts: Iterable[Path], added: Iterable[Path], first: str) -> list[Path]:
    """Where Python may look for an absolute import in a file of a project, nearest first."""
    beside = [script.parent for script in scripts]
    root = package_root(file)
    found = [*beside, *added, root]
    if first not in sys.stdlib_module_names | KNOWN:  # examples of such a package use it as others do
        found += [file.parent, root / "src", *_above(root)]
    return list(dict.fromkeys(found))


def package_root(file: Path) -> Path:
    """The folder that holds the outermost package that a file is in; its own folder where it is in none."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def library_of(file: Path) -> Path | None:
    """The folder that an installed package is in, beside pip's notes on it, where a file is part of one; else None."""
    root = package_root(file)
    if root == file.parent:
        return None
    package = file.relative_to(root).parts[0].lower()
    notes = (found.name.partition("-")[0].lower() for found in root.glob("*.dist-info"))
    return root if package in notes else None


def package_of(file: Path, root: Path) -> str:
    """The package that the relative imports of a file start from, as seen from the folder `root`."""
    return ".".join(file.relative_to(root).parent.parts)


def _above(folder: Path) -> Iterator[Path]:
    """The folders above one, and their `src`, up to the top folder of its project."""
    around = [folder, *folder.parents][: _FAR_ABOVE + 1]
    top = next((n for n, one in enumerate(around) if any((one / marker).exists() for marker in _MARKERS)), _ABOVE)
    for each in around[1 : top + 1]:
        yield each
        yield each / "src"


def _reaches(base: Path, parts: list[str], names: Iterable[str]) -> bool:
    """Whether a folder holds the module: a folder without an `__init__.py` must hold all of it, or a module that is
    taken from it, since anything may be called `data`."""
    first = base / parts[0]
    if first.with_name(parts[0] + SUFFIX).is_file() or (first / "__init__.py").is_file():
        return True
    if len(parts) > 1 and _module_at(base, parts) is not None:
        return True
    return any(_module_at(base, [*parts, name]) is not None for name in names)


def _module_at(base: Path, parts: list[str]) -> Path | None:
    """A package, a module, or a folder without an `__init__.py` that holds Python files: Python's order."""
    path = base.joinpath(*parts)
    for candidate in (path / "__init__.py", path.with_name(path.name + SUFFIX)):
        if candidate.is_file():
            return candidate
    return path if path.is_dir() and any(path.glob(f"*{SUFFIX}")) else None
