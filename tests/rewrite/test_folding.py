"""Long lines of the output are broken; what the author wrote, and how he indents, stays."""

from __future__ import annotations

import ast
import re

import pytest

from migrate.files.source import parse
from migrate.syntax.folding import WIDEST, folded

LONG = "function(" + ", ".join(f"argument_{i}" for i in range(12)) + ")"
BROKEN = "function(\n" + "".join(f"{{0}}argument_{i},\n" for i in range(12)) + "{1})"


def broken(unit: str, indent: str = "") -> str:
    return BROKEN.format(indent + unit, indent)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"x = {LONG}\n", f"x = {broken('    ')}\n"),
        (f"if x:\n    y = {LONG}\n", f"if x:\n    y = {broken('    ', '    ')}\n"),
        (f"if x:\n  y = {LONG}\n", f"if x:\n  y = {broken('  ', '  ')}\n"),
        (f"if x:\n\ty = {LONG}\n", f"if x:\n\ty = {broken(chr(9), chr(9))}\n"),
        (
            f"if x:\n    pass\nelif {LONG}:\n    # why\n\n    y()\n",
            f"if x:\n    pass\nelif {broken('    ')}:\n    # why\n\n    y()\n",
        ),
        (f"@{LONG}\ndef f():\n    return 1\n", f"@{broken('    ')}\ndef f():\n    return 1\n"),
        (f"x = {LONG}\r\ny = 1\r\n", f"x = {broken('    ')}\ny = 1\n".replace("\n", "\r\n")),
        (f"x = {LONG}  # why\ny   =  1\n", f"x = {broken('    ')}  # why\ny   =  1\n"),
    ],
)
def test_a_long_line_is_broken_and_nothing_else_changes(text: str, expected: str) -> None:
    indent = re.match(r"if x:\n(\s+)", text)
    source = parse("a.py", f"if x:\n{indent[1]}z\n" if indent else "z\n")
    assert folded(text, source) == expected


@pytest.mark.parametrize(
    "text",
    [
        f'x = {LONG}, """two\nlines"""\n',
        f"x = {LONG}; y = 1\n",
        f"if x: y = {LONG}\n",
        f"x = {LONG} + \\\n    1\n",
        f"x = 1  # {'why ' * 30}\ny   =  f('#')  # {'why ' * 30}\n",
        f"match x:\n    case {LONG}:\n        y   =  1\n",
    ],
)
def test_what_cannot_be_moved_stays(text: str) -> None:
    assert folded(text, parse("a.py", "z\n")) == text


def test_lines_of_the_source_and_of_snippets_stay() -> None:
    text = f"if x:\n    y = {LONG}\n    z = {LONG}\n"
    assert folded(text, parse("a.py", f"y = {LONG}\n"), [f"z = {LONG}\n"]) == text


def test_a_wide_source_has_wide_lines() -> None:
    wide = f"x = [{', '.join('1234567')}]".ljust(WIDEST, "#")
    line = f"y = {'a' * 50} + {'b' * (WIDEST - 57)}\n"
    assert len(line) == WIDEST + 1
    assert folded(line, parse("a.py", wide + "\n")) == line
    assert ast.dump(ast.parse(folded(line, parse("a.py", "x\n")))) == ast.dump(ast.parse(line))
    assert folded(line, parse("a.py", "x\n")) != line
