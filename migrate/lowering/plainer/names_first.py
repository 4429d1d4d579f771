"""Second names of torch's functions that a file gives at its end, below the functions that read them: `ones = torch.ones`.

Functions read such a name when they are called, so that its place does not matter; but what it stands for is known only
from there on. The file is taken as if the names were given above the functions.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage


def with_names_first(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such names above the functions and classes that read them."""
    return [one.edited(_moved(one.source.module)) for one in inputs]


def _moved(module: cst.Module) -> Edits:
    edits = Edits()
    first = next((line for line in module.body if isinstance(line, cst.FunctionDef | cst.ClassDef)), None)
    if first is None:
        return edits
    body = suites.suite_of(module.body)
    above = body.index(first)
    bound_once = [name for name in usage.stores(body) if usage.stores(body).count(name) == 1]
    imported = {name for line in body[:above] if suites.is_import(line) for name in usage.stores(line)}
    read_inside = {name for line in body for name in (usage.loads(line) if _is_definition(line) else ())}
    ahead = []
    for line in body[above:]:
        name, roots = _named(line)
        if name not in bound_once or name not in read_inside or hasattr(builtins, name) or not roots <= imported:
            continue
        ahead.append(line.with_changes(leading_lines=[]))
        edits.instead[line] = []
    if ahead:
        edits.ahead[first] = ahead
    return edits


def _is_definition(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.FunctionDef | cst.ClassDef)


def _named(line: cst.CSTNode) -> tuple[str, set[str]]:
    """The name in `ones = torch.ones`, or of a lambda that calls a method of its argument, and the names that what it
    stands for is reached by."""
    small = suites.alone(line)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return "", set()
    name, value = small.targets[0].target, small.value
    if not isinstance(name, cst.Name):
        return "", set()
    if isinstance(value, cst.Attribute) and nodes.dotted(value):
        return name.value, set(usage.loads(value))
    if isinstance(value, cst.Lambda):
        return name.value, set(usage.loads(value))
    return "", set()
