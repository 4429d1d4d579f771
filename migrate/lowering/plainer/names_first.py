"""Second names of torch's functions that a file gives below the functions that read them, `ones = torch.ones` maybe.

Functions read such a name when they are called, so that its place does not matter; but what it stands for is known
from there on only. The file is taken as if the names were given above the functions.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement


def with_names_first(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such names above the functions and classes that read them."""
    return [one.edited(_moved(one.source.module)) for one in inputs]


def _moved(module: cst.Module) -> Edits:
    edits = Edits()
    body = suites.suite_of(module.body)
    above = next((at for at, line in enumerate(body) if isinstance(line, cst.FunctionDef | cst.ClassDef)), len(body))
    torchs = {name for line in body[:above] if _imports_torch(line) for name in usage.stores(line)}
    if not torchs:
        return edits
    times = Counter(usage.stores(body))
    read: set[str] = set()  # by the definitions so far
    for line in body[above:]:
        name, reached_by = _named(line)
        if name in read and times[name] == 1 and not hasattr(builtins, name) and reached_by <= torchs:
            edits.ahead.setdefault(body[above], []).append(line.with_changes(leading_lines=[]))
            edits.instead[line] = []
        if isinstance(line, cst.FunctionDef | cst.ClassDef):
            read.update(usage.loads(line))
    return edits


def _imports_torch(line: Statement) -> bool:
    return suites.is_import(line) and nodes.code(line).split()[1].partition(".")[0] == "torch"


def _named(line: Statement) -> tuple[str, set[str]]:
    """The name in `ones = torch.ones` or `size = lambda x: x.numel()`, and the names that what it stands for reads."""
    name, value = suites.name_and_value(line)
    named = isinstance(value, cst.Lambda) or (isinstance(value, cst.Attribute) and nodes.dotted(value))
    return (name, set(usage.loads(value))) if named and value is not None else ("", set())
