"""What is promised of every output, checked before it is written."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Sequence

import libcst as cst

from migrate import kept
from migrate.apis import PACKAGES, is_data_api
from migrate.diagnostics import Diagnostic
from migrate.files.source import SourceFile
from migrate.numpy_copies import written_to
from migrate.shared_arrays import SHARING, written_while_shared
from migrate.syntax import usage
from migrate.syntax.nodes import Statement
from migrate.syntax.unbound import unbound


def compiles(path: str, text: str) -> list[Diagnostic]:
    """Whether the output is valid Python; if not, that is a bug of the rewriter (MIG900)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `x is 1` in a user's code is none of our business
            compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return [Diagnostic(path, 0, 0, "MIG900", f"the output does not compile: {error}")]
    return []


def undefined(path: str, before: str, after: str, refused: frozenset[str]) -> list[Diagnostic]:
    """Names that the output reads and nothing binds, though the input bound them. What a refused statement would have
    bound has been reported there."""
    lost = unbound(path, after) - unbound(path, before) - refused
    return [
        Diagnostic(path, *_place(name, before, after), "MIG305", f"the output reads `{name}`, which nothing binds")
        for name in sorted(lost)
    ]


def read_only(source: SourceFile, text: str) -> list[Diagnostic]:
    """Names by which the output would write to an array of JAX's, which numpy refuses."""
    if "np.asarray(" not in text:
        return []
    told = "is changed in place, and in torch the tensor that it is of with it"
    found: list[Diagnostic] = []
    for name in written_to(cst.parse_module(text), source.module):
        said = re.search(rf"(?<![\w.]){re.escape(name)}\b", source.text)
        line = source.text.count("\n", 0, said.start()) + 1 if said else 0
        column = said.start() - source.text.rfind("\n", 0, said.start()) if said else 0
        found.append(Diagnostic(source.path, line, column, "MIG303", f"`{name}` {told}", source.line(line)))
    return found


def shared(source: SourceFile, text: str) -> list[Diagnostic]:
    """Arrays of numpy's that the script writes to while a tensor shares them."""
    if not any(name in source.text for name in SHARING):
        return []
    found = written_while_shared(source.module, text)
    places = ((*source.place(statement), array, tensor) for statement, array, tensor in found)
    told = "is changed in place, and in torch `{}`, which shares its memory, with it"
    return [
        Diagnostic(source.path, line, column, "MIG303", f"`{array}` {told.format(tensor)}", source.line(line))
        for line, column, array, tensor in places
    ]


def torch_left(
    source: SourceFile, parts: Sequence[tuple[int, Sequence[Statement]]], rebound: Collection[str]
) -> list[Diagnostic]:
    """Names rooted in torch that are still used, but by what stays torch on purpose: a rule or a pass forgot them.
    parts: statements of the output, each with the top-level statement of the input that it belongs to. rebound: names
    that mean something else in the output, whatever the input imported by them."""
    statements = [statement for _, made in parts for statement in made]
    imported = kept.imported_from(statements, PACKAGES)
    imported = {name: full for name, full in imported.items() if name not in rebound}
    if "torch" not in usage.stores(statements):
        imported["torch"] = "torch"  # the output would import it
    return [
        _left_at(source, index, path, full)
        for index, made in parts
        for path, full in kept.left(made, imported, rebound)
        if not is_data_api(full)
    ]


def _left_at(source: SourceFile, index: int, path: str, full: str) -> Diagnostic:
    """The finding at the first place inside a top-level statement that has the name; else at the statement."""
    body = source.module.body
    line, column = source.place(body[min(index, len(body) - 1)])
    last = source.place(body[index + 1])[0] if index + 1 < len(body) else len(source.text.splitlines()) + 1
    for number in range(line, last):
        position = source.line(number).find(path)
        if position >= 0:
            line, column = number, position + 1
            break
    return Diagnostic(source.path, line, column, "MIG304", f"{full} is left in the output", source.line(line))


def _place(name: str, before: str, after: str) -> tuple[int, int]:
    """Where the input has what reads a name in the output: the same line, else the first one that reads the name."""
    lines = before.splitlines()
    written = [line.strip() for line in lines]
    for line, _ in _reads(name, after):
        text = after.splitlines()[line - 1].strip()
        if text in written:
            number = written.index(text)
            return number + 1, len(lines[number]) - len(lines[number].lstrip()) + text.index(name) + 1
    return next(iter(_reads(name, before)), (0, 0))


def _reads(name: str, text: str) -> list[tuple[int, int]]:
    """Lines and columns, from 1, at which a name is read."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == name]
    return sorted((node.lineno, node.col_offset + 1) for node in found if isinstance(node.ctx, ast.Load))
