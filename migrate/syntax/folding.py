"""Lines of the output that have become too long are broken as black breaks them; all others stay as they are."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator

from migrate.files.source import SourceFile

NARROWEST, WIDEST = 100, 120  # what people set who find 79 or 88 too narrow


def folded(text: str, source: SourceFile, snippets: Iterable[str] = ()) -> str:
    """A rewritten file with its long lines broken, but for those that stand in the source, which are as its author
    wants them, or in the snippets. Long is what is longer than the longest line of the source, between `NARROWEST` and
    `WIDEST` columns."""
    kept = {line.strip() for written in (source.text, *snippets) for line in written.split("\n")}
    limit = min(max([NARROWEST, *map(len, source.text.splitlines())]), WIDEST)
    lines = text.split("\n")
    long = {i for i, line in enumerate(lines) if len(line.rstrip("\r")) > limit and line.strip() not in kept}
    if not long:
        return text
    try:
        tree = ast.parse(text)
    except SyntaxError:  # for another to tell
        return text
    long -= {i for i, column in _trailing_comments(text) if len(lines[i][:column].rstrip()) <= limit}
    found = {part for part in _parts(tree, lines) if not long.isdisjoint(range(*part))}
    for start, end in sorted(found, reverse=True):
        lines[start:end] = _broken(lines[start:end], limit, source.module.default_indent)
    made = "\n".join(lines)
    return made if ast.dump(ast.parse(made)) == ast.dump(tree) else text


def _trailing_comments(text: str) -> Iterator[tuple[int, int]]:
    """The lines that end in a comment, and where it begins: what stands before it may fit."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line, column = token.start
        if token.type == tokenize.COMMENT and token.line[:column].strip():
            yield line - 1, column


def _parts(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, int]]:
    """The lines of each simple statement, and of the header of each block, that has them to itself: from, up to."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.Match):
            continue
        start, end = _start(node), node.end_lineno or node.lineno
        body = getattr(node, "body", None)
        if body:
            end = _start(body[0])
            while end > start and re.match(r"\s*(#|$)", lines[end - 1]):
                end -= 1
        alone = not lines[node.lineno - 1].encode()[: node.col_offset].strip()
        if end > start and alone:
            yield start, end


def _start(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) - 1


def _broken(lines: list[str], limit: int, unit: str) -> list[str]:
    """The lines of one statement, or of the header of a block, in black's form; the same where it cannot tell."""
    whole = "\n".join(lines)
    if re.search(r"'''|\"\"\"|\\\r?$|;", whole, re.MULTILINE):  # what moving a line may change, or several statements
        return lines
    import black  # takes longer than the rest of a small file
    from black.parsing import InvalidInput

    indent = whole[: len(whole) - len(whole.lstrip())]
    code = "\n".join(line.removeprefix(indent).rstrip("\r") for line in lines)
    opens = code.rstrip().endswith(":")
    otherwise = "el" if code.startswith("elif") else ""
    code = code.removeprefix(otherwise) + ("\n    pass" if opens else "")
    width = limit - len(indent.expandtabs(4)) - len(otherwise)
    try:
        made = black.format_str(code, mode=black.Mode(line_length=width, string_normalization=False))
    except (InvalidInput, ValueError):
        return lines
    shown = made.rstrip("\n").split("\n")[: -1 if opens else None]
    end = "\r" if lines[0].endswith("\r") else ""
    return [indent + otherwise * (not i) + _indented(line, unit) + end for i, line in enumerate(shown)]


def _indented(line: str, unit: str) -> str:
    bare = line.lstrip(" ")
    return unit * ((len(line) - len(bare)) // 4) + bare
