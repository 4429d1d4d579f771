"""What an import leads through without using it: `from lib.vit import ViT` runs `lib/__init__.py`, whose imports may
reach files of which the program uses nothing. Those files are no part of the project, and the imports of them go.

That changes nothing as long as importing such a file does nothing but define what is in it.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migrate.files.imports import Written, parsed

PACKAGE = "__init__.py"

# What finds definitions that nobody names: a file with one of these may use any other.
_BY_NAME = re.compile(r"\b(importlib|__import__|__subclasses__|__init_subclass__|metaclass|pkgutil|globals\(\)|exec\()")

# Calls that only make a value.
_MAKING = frozenset(
    {"TypeVar", "namedtuple", "NamedTuple", "partial", "getLogger", "compile", "field"}
    | {"dict", "list", "tuple", "set", "frozenset"}
)

Reached = Mapping[Path, Mapping[Written, Mapping[str, Path]]]  # file -> its imports -> modules as written -> files


def unused_imports(
    texts: Mapping[Path, str], reached: Reached, start: Iterable[Path], may_go: Container[Path]
) -> dict[Path, frozenset[Written]]:
    """What the `__init__.py` of packages import of files that no program that begins with `start` uses anything of.
    Files that `may_go` does not hold stay, with all that they import."""
    if any(_BY_NAME.search(text) for text in texts.values()):
        return {}
    trees = {path: parsed(text) for path, text in texts.items()}
    needed = set(start)
    while True:
        used = _Used(trees, reached)
        used.follow(needed)
        left = trees.keys() - used.files
        kept = {p for p in left if p not in may_go or not _only_defines(trees[p].body, _harmless(trees[p]))}
        if not kept:
            return used.skipped(left)
        needed |= kept


@dataclass
class _Used:
    """The files that a program uses, and what it takes from packages."""

    trees: Mapping[Path, ast.Module]
    reached: Reached
    files: set[Path] = field(default_factory=set)
    taken: dict[Path, set[str]] = field(default_factory=dict)  # package -> names, "*" for whatever it has

    def follow(self, start: Iterable[Path]) -> None:
        """Goes from file to file until nothing new is used."""
        self.files |= set(start)
        known = -1
        while known != (known := len(self.files) + sum(map(len, self.taken.values()))):
            for path in sorted(self.files & self.trees.keys()):
                for node, written in _imports(self.trees[path]):
                    if not self.only_passed_on(path, node):
                        self.take(path, node, written)

    def take(self, path: Path, node: ast.Import | ast.ImportFrom, written: Written) -> None:
        """One import that a program needs: the files that it leads to, and what it takes from the last of them."""
        found = self.reached[path].get(written, {})
        self.files |= set(found.values())
        renamed = isinstance(node, ast.Import) and any(one.asname and one.name == written.module for one in node.names)
        for text, file in found.items():
            if isinstance(node, ast.Import):  # `import a.b` gives all of `a`, `import a.b as c` all of `a.b` alone
                self.taken.setdefault(file, set()).update({"*"} if not renamed or text == written.text else ())
            elif text == written.text:
                self.taken.setdefault(file, set()).update(written.names)
            elif text.removeprefix(written.text).removeprefix(".") in written.names:  # a module of the package
                self.taken.setdefault(file, set()).add("*")

    def only_passed_on(self, path: Path, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether the `__init__.py` of a package imports names that nobody takes from it, nor it reads itself."""
        taken = self.taken.get(path, set())
        if path.name != PACKAGE or "*" in taken or isinstance(node, ast.Import) or node not in self.trees[path].body:
            return False
        names = {alias.asname or alias.name for alias in node.names}
        return not names & ({"*"} | taken | _reads(self.trees[path]))

    def skipped(self, left: set[Path]) -> dict[Path, frozenset[Written]]:
        """The imports in files in use that lead to files that are `left`."""
        made: dict[Path, frozenset[Written]] = {}
        for path in self.files & self.trees.keys():
            names = {w for node, w in _imports(self.trees[path]) if self.only_passed_on(path, node)}
            names = {written for written in names if left & set(self.reached[path].get(written, {}).values())}
            if names:
                made[path] = frozenset(names)
        return made


def _imports(tree: ast.Module) -> list[tuple[ast.Import | ast.ImportFrom, Written]]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return [(node, written) for node in nodes for written in Written.of(node)]


def _reads(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _harmless(tree: ast.Module) -> frozenset[str]:
    """Decorators that do nothing elsewhere: what a file defines itself, or has from the standard library or torch."""
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            own |= {(alias.asname or alias.name).split(".")[0] for alias in node.names if _plain(alias.name)}
        elif isinstance(node, ast.ImportFrom) and not node.level and _plain(node.module or ""):
            own |= {alias.asname or alias.name for alias in node.names}
    return frozenset(own | {"property", "staticmethod", "classmethod"})


def _plain(module: str) -> bool:
    root = module.split(".")[0]
    return root == "torch" or root in sys.stdlib_module_names


def _only_defines(body: Sequence[ast.stmt], known: frozenset[str]) -> bool:
    """Whether running statements does nothing but bind names."""
    return all(_defines(statement, known) for statement in body)


def _defines(node: ast.stmt, known: frozenset[str]) -> bool:
    inner = functools.partial(_only_defines, known=known)
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
            return _decorated(node.decorator_list, known) and all(map(_makes, defaults))
        case ast.ClassDef():
            return _decorated(node.decorator_list, known) and not node.keywords and inner(node.body)
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return all(isinstance(target, ast.Name) for target in targets) and (
                node.value is None or _makes(node.value)
            )
        case ast.Expr():
            return _makes(node.value)
        case ast.Try():
            return inner(node.body) and all(inner(handler.body) for handler in node.handlers) and inner(node.orelse)
        case ast.If():
            return ast.unparse(node.test) in ("__name__ == '__main__'", "TYPE_CHECKING") or (
                _makes(node.test) and inner(node.body) and inner(node.orelse)
            )
        case _:
            return False


def _decorated(decorators: Sequence[ast.expr], known: frozenset[str]) -> bool:
    roots = (ast.unparse(node).partition("(")[0].split(".")[0] for node in decorators)
    return all(root in known for root in roots)


def _makes(node: ast.expr) -> bool:
    """Whether evaluating an expression changes nothing anywhere."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return all(ast.unparse(func).rpartition(".")[2] in _MAKING for func in calls)
