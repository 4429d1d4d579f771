"""Reading and writing source files: decode, parse, write whole or not at all."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from migrate.diagnostics import Diagnostic, Fatal
from migrate.files.notebook import SUFFIX, Notebook, read_notebook
from migrate.manifest import replacing
from migrate.syntax.deep import deeply
from migrate.syntax.keyword_spaces import keep_apart


@dataclass(frozen=True)
class SourceFile:
    """A parsed input. `module` keeps every byte; `positions` maps its nodes to places."""

    path: str
    text: str
    encoding: str
    module: cst.Module
    positions: dict[cst.CSTNode, CodeRange]
    notebook: Notebook | None = None
    edited: bool = False  # whether `module` is another one than the text reads

    def place(self, node: cst.CSTNode) -> tuple[int, int]:
        """Line and column (from 1) of a node of the input; (0, 0) for a node that a pass made."""
        found = _first(node, self.positions)
        return (found.start.line, found.start.column + 1) if found else (0, 0)

    def with_module(self, module: cst.Module, positions: dict[cst.CSTNode, CodeRange]) -> SourceFile:
        """The file with other code than its text has."""
        return replace(self, module=module, positions=positions, edited=True)

    def line(self, number: int) -> str:
        """The text of a line (from 1), "" where there is none."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    @functools.cached_property
    def lines(self) -> list[str]:
        """The text by lines."""
        return self.text.splitlines()


def _first(node: cst.CSTNode, positions: Mapping[cst.CSTNode, CodeRange]) -> CodeRange | None:
    """The place of a node, or of the first part of it that was in the input."""
    found = positions.get(node)
    if found is None and isinstance(node, _WRITTEN):
        parts = (part for part in node.children if isinstance(part, _WRITTEN))
        return next((place for part in parts if (place := _first(part, positions)) is not None), None)
    return found


_WRITTEN = (cst.SimpleStatementLine, cst.BaseSmallStatement, cst.BaseExpression, cst.AssignTarget)


def _fatal(path: str, code: str, message: str, line: int = 0, column: int = 0, source: str = "") -> Fatal:
    return Fatal(Diagnostic(path, line, column, code, message, source))


_PYTHON_2 = re.compile(r"\s*(print\s+[^\s(=.]|exec\s+['\"]|except\s+[\w.]+\s*,\s*\w+\s*:|raise\s+\w+\s*,)")


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; raises Fatal (MIG003) where there is none."""
    if path.is_dir():
        raise _fatal(str(path), "MIG003", "is a directory; name a Python file in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise _fatal(str(path), "MIG003", "does not exist") from None
    except OSError as error:
        raise _fatal(str(path), "MIG003", error.strerror or str(error)) from None


def decode(path: str, data: bytes) -> tuple[str, str]:
    """Text and encoding of Python source bytes; raises Fatal (MIG002)."""
    if b"\0" in data:
        raise _fatal(path, "MIG002", "is a binary file, not Python source")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise _fatal(path, "MIG002", f"does not decode: {error}") from None


def decode_source(path: str, data: bytes) -> tuple[str, str, Notebook | None]:
    """The Python text, the encoding, and the notebook of a file; raises Fatal (MIG002)."""
    text, encoding = decode(path, data)
    if not path.endswith(SUFFIX):
        return text, encoding, None
    notebook = read_notebook(path, text)
    return notebook.text, encoding, notebook


def parse(path: str, text: str, encoding: str = "utf-8", notebook: Notebook | None = None) -> SourceFile:
    """Parses source text; raises Fatal (MIG001) at the place of a syntax error."""
    try:
        return _parsed_source(path, text, encoding, notebook)
    except Fatal as error:
        raise error if notebook is None else Fatal(notebook.placed(error.diagnostic)) from None


def _parsed_source(path: str, text: str, encoding: str, notebook: Notebook | None) -> SourceFile:
    try:
        module, positions = deeply(lambda: _parsed(text))
    except cst.ParserSyntaxError as error:
        lines = text.splitlines()
        line, column, message = _told(text, error)
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        if _PYTHON_2.match(source):
            message = f"is Python 2 code, it seems ({message})"
        raise _fatal(path, "MIG001", message, line, column, source) from None
    except RecursionError:
        raise _fatal(path, "MIG001", "nests too deeply to be parsed") from None
    return SourceFile(path, text, encoding, module, positions, notebook)


def _told(text: str, error: cst.ParserSyntaxError) -> tuple[int, int, str]:
    """Line, column and message of a syntax error: Python's own, or LibCST's where Python finds none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as own:
        return own.lineno or 0, own.offset or 0, own.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    return error.raw_line, error.raw_column + 1, " ".join(error.message.split())


def _parsed(text: str) -> tuple[cst.Module, dict[cst.CSTNode, CodeRange]]:
    """The syntax tree of a text, and the places of its nodes."""
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)  # a parser's tree holds no node twice
    found = wrapper.resolve(PositionProvider)
    keep_apart(wrapper.module, text)
    return wrapper.module, {node: place for node, place in found.items() if isinstance(place, CodeRange)}


def load(path: Path) -> SourceFile:
    """Reads and parses one file."""
    return parse(str(path), *decode_source(str(path), read_bytes(path)))


def write_whole(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Writes to a temporary name in the same folder and renames: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode(encoding))
