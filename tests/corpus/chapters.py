"""The PyTorch script of a d2l chapter: its code cells as d2lbook would write them into a notebook."""

from __future__ import annotations

import re

_CELL = re.compile(r"^```\{\.python \.input[^}]*\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TAB = re.compile(r"(?:%%tab|#@tab) +(.*)")
_SELECTED = re.compile(r"if tab\.selected\((.*)\):$")
_MARK = re.compile(r"\s*#@save\b.*|\s*#@tab\b.*")
_ALL_TABS = "mxnet, pytorch, tensorflow, jax"


def script(chapter: str) -> str:
    """The cells for PyTorch of a chapter in Markdown, in order, without notebook magic."""
    cells = [_cell(match.group(1)) for match in _CELL.finditer(chapter)]
    return "\n\n".join(cell for cell in cells if cell) + "\n"


def _cell(text: str) -> str:
    lines = text.rstrip().split("\n")
    tab = _TAB.match(lines[0])
    tabs = tab.group(1) if tab else _ALL_TABS
    if "pytorch" not in tabs and tabs.strip() != "all":
        return ""
    lines = [line for line in lines[1 if tab else 0 :] if not line.startswith(("%", "!", "tab.interact_select"))]
    return "\n".join(_MARK.sub("", line) for line in _selected(lines)).strip("\n")


def _selected(lines: list[str]) -> list[str]:
    """Resolves `if tab.selected(...)`: its body one level out where PyTorch is among its names, nothing elsewhere."""
    kept: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        i += 1
        condition = _SELECTED.match(line.strip())
        if condition is None:
            kept.append(line)
            continue
        depth = len(line) - len(line.lstrip())
        body = []
        while i < len(lines) and (not lines[i].strip() or len(lines[i]) - len(lines[i].lstrip()) > depth):
            body.append(lines[i][4:])
            i += 1
        if "'pytorch'" in condition.group(1):
            kept += _selected(body)
    return kept
