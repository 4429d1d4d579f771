"""Notebooks: the code of all cells is one text, since cells share their state; what it becomes goes back cell by cell.

Between two cells of the text stands a string as a statement of its own, which no pass touches. Lines that IPython
reads and Python does not (`%matplotlib inline`, `!pip install`, `x?`) are strings of that kind too.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from migrate.diagnostics import Diagnostic, Fatal

SUFFIX = ".ipynb"

_BOUNDARY = re.compile(r'^(?:# )?"migrate: cell (\d+)"\n?', re.MULTILINE)
_LEFT = re.compile(r'"migrate: line \d+\.\d+"')
_WRITES = re.compile(r"\s*%%(?:writefile|file)\s+(?:-a\s+)?(\S+)")
# what runs in a notebook has its names without imports
_TORCH = re.compile(r"\btorch\b|\bnn\.\w|\.backward\(|\boptimizer\.|\bmodel[.(]")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_MAGIC = re.compile(r"\s*[%!?]|.*\?\s*$|[\w\s,.\[\]]+=\s*[%!]")

# Magics that run Python code: of the whole cell, which is converted, or of a line, which is not.
_RUNS_CODE = {"time", "timeit", "capture", "prun", "memit", "mprun", "lprun"}


@dataclass(frozen=True)
class Notebook:
    """A notebook, and the text that its code cells are together. `starts`: the first line of each cell in the text, and
    its number in the notebook, from 1; `left`: what stands for lines of IPython -> the lines."""

    data: Mapping[str, Any]
    text: str
    starts: tuple[tuple[int, int], ...]
    left: Mapping[str, str] = field(default_factory=dict)
    indent: int = 1
    ending: str = "\n"

    def placed(self, found: Diagnostic) -> Diagnostic:
        """A finding with the cell that it is in."""
        at = [(start, cell) for start, cell in self.starts if start <= found.line]
        if not found.line or not at:
            return found
        start, cell = at[-1]
        return replace(found, cell=cell, cell_line=found.line - start + 1, source=self.shown(found.source))

    def unconverted(self, path: str) -> list[Diagnostic]:
        """Findings for lines of code that a magic runs, and for files with torch that it runs or writes: they are left
        as they are."""
        lines = self.text.split("\n")
        made = self._written_by_cells(path)
        for mark, line in self.left.items():
            name = line.lstrip().lstrip("%").split(" ")[0]
            runs = name in _RUNS_CODE or (name == "run" and self._runs_torch(line, path))
            if line.lstrip().startswith("%%") or not line.lstrip().startswith("%") or not runs:
                continue
            number = next(i for i, text in enumerate(lines, 1) if mark in text)
            message = f"%{name}: the code that the magic runs is left as it is"
            made.append(self.placed(Diagnostic(path, number, 1, "MIG206", message, line)))
        return made

    def _written_by_cells(self, path: str) -> list[Diagnostic]:
        """Findings for cells that write a file with torch, `%%writefile model.py`."""
        made = []
        for number, cell in enumerate(self.data["cells"], 1):
            source = _source(cell)
            writes = _WRITES.match(source) if cell.get("cell_type") == "code" else None
            if writes is not None and _TORCH.search(source):
                message = f"%%writefile {writes[1]}: the file that cell {number} writes is left as it is"
                made.append(Diagnostic(path, 0, 1, "MIG206", message, source.split("\n")[0], number, 1))
        return made

    def _runs_torch(self, line: str, path: str) -> bool:
        """Whether `%run file.py` runs torch, as far as that can be seen: a file that a cell writes, or one beside the
        notebook."""
        words = [word for word in line.split()[1:] if not word.startswith("-")]
        if not words:
            return False
        for cell in self.data["cells"]:
            writes = _WRITES.match(_source(cell))
            if writes is not None and writes[1] == words[0]:
                return bool(_TORCH.search(_source(cell)))
        beside = Path(path).parent / words[0]
        return not beside.is_file() or bool(_TORCH.search(beside.read_text(encoding="utf-8", errors="replace")))

    def shown(self, text: str) -> str:
        """A text of all cells as people read it."""
        return _BOUNDARY.sub(lambda found: f"# %% cell {found[1]}\n", self._with_left(text))

    def written(self, text: str) -> bytes | None:
        """The notebook with the cells of a text in place of its own, and without outputs. None where the text does not
        keep the cells apart."""
        sources = self._cells(text)
        if sources is None:
            return None
        cells = []
        for number, cell in enumerate(self.data["cells"], 1):
            if cell.get("cell_type") == "code":
                source = sources.get(number, _source(cell))
                kept = source if isinstance(cell.get("source"), str) else source.splitlines(keepends=True)
                cell = cell | {"source": kept, "outputs": [], "execution_count": None}
            cells.append(cell)
        body = json.dumps(dict(self.data) | {"cells": cells}, indent=self.indent, ensure_ascii=False)
        return (body + self.ending).encode()

    def _cells(self, text: str) -> dict[int, str] | None:
        """Number -> code of each cell that the text holds, if all are there, in order."""
        parts = _BOUNDARY.split(text)
        numbers = [cell for _, cell in self.starts]
        if not numbers:
            return {}
        if [int(number) for number in parts[1::2]] != numbers[1:]:
            return None
        return {n: self._with_left(part.strip("\n")) for n, part in zip(numbers, parts[::2], strict=True)}

    def _with_left(self, text: str) -> str:
        return _LEFT.sub(lambda found: self.left.get(found[0], found[0]), text)


def read_notebook(path: str, text: str) -> Notebook:
    """The notebook that a JSON text is. Raises Fatal (MIG002)."""
    try:
        data = json.loads(text)
        cells = data["cells"]
        language = data.get("metadata", {}).get("kernelspec", {}).get("language", "python")
        if data.get("nbformat") != 4 or not all(isinstance(_source(cell), str) for cell in cells):
            raise KeyError("nbformat")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _unreadable(
            path, "is not a notebook of format 4: `jupyter nbconvert --to notebook` brings it up"
        ) from None
    if language.lower() not in ("python", "python3", "ipython"):
        raise _unreadable(path, f"is a notebook in {language}")
    left: dict[str, str] = {}
    lines: list[str] = []
    starts = []
    for number, source in _code_cells(cells):
        if starts:
            lines.append(f'"migrate: cell {number}"')
        starts.append((len(lines) + 1, number))
        lines += _python(source, number, left).rstrip("\n").split("\n")
    indent = re.match(r"\{\n( +)", text)
    joined = "\n".join(lines) + "\n" if starts else ""
    ending = "\n" if text.endswith("\n") else ""
    return Notebook(data, joined, tuple(starts), left, len(indent[1]) if indent else 1, ending)


def _unreadable(path: str, message: str) -> Fatal:
    return Fatal(Diagnostic(path, 0, 0, "MIG002", message))


def _source(cell: Mapping[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _code_cells(cells: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    """Number and code of the cells that hold Python: not those of another language, as `%%bash` makes them."""
    for number, cell in enumerate(cells, 1):
        if cell.get("cell_type") != "code":
            continue
        magic = _CELL_MAGIC.match(_source(cell))
        if magic is None or magic[1] in _RUNS_CODE:
            yield number, _source(cell)


def _python(source: str, number: int, left: dict[str, str]) -> str:
    """The Python of a cell: Python's own parser says which lines it does not read, and those that IPython may read
    are put into `left`."""
    lines = source.split("\n")
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse("\n".join(lines))
        except (SyntaxError, ValueError, RecursionError) as error:
            at = (getattr(error, "lineno", None) or 0) - 1
            if not 0 <= at < len(lines) or not _MAGIC.match(lines[at]):
                return "\n".join(lines)
            end = at
            while lines[end].endswith("\\") and end + 1 < len(lines):
                end += 1
            before, magic = _split("\n".join(lines[at : end + 1]))
            mark = f'"migrate: line {number}.{at + 1}"'
            left[mark] = magic
            lines[at : end + 1] = [before + mark] + [""] * (end - at)
        else:
            return "\n".join(lines)


def _split(line: str) -> tuple[str, str]:
    """What is Python in front of a line of IPython (`files = !ls`), and the rest."""
    if line.lstrip()[:1] in "%!?":
        return line[: len(line) - len(line.lstrip())], line.lstrip()
    found = re.match(r"([\w\s,.\[\]]+=\s*)([%!].*)", line, re.DOTALL)
    if found:
        return found[1], found[2]
    return line[: len(line) - len(line.lstrip())], line.lstrip()
