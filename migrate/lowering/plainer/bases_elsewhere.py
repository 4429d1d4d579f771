"""Module classes that hand arguments to the constructor of a class in another file.

Such a class is written out (`inheritance.py`), with what the constructor and the methods of its base say there. The
input is taken as if its file imported the names that they read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.qualified import file_of
from migrate.known.script import Script
from migrate.lowering.plainer.imports_of_bases import imports_of, with_imports
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites


def with_names_of_bases(inputs: Sequence[Input], script: Script) -> list[Input] | None:
    """The files of a project with the names that bases in other files read; None where there is nothing to do."""
    files = {one.scope: one for one in inputs}
    lines: dict[str, list[cst.SimpleStatementLine]] = {one.scope: [] for one in inputs}
    reaching: set[str] = set()
    for cls, base in sorted(script.bases_elsewhere.items()):
        node = script.classes[base].node
        if cls in script.reaching or node is None:
            continue
        try:
            needed = imports_of(files, script, cls, {base: _read_of(node)})
        except LookupError:
            continue
        known = lines[file_of(cls)]
        known += [line for line in needed if not any(map(line.deep_equals, known))]
        reaching.add(cls)
    if not reaching:
        return None
    reaching |= script.reaching
    found = [with_imports(one, one.source, lines[one.scope], inputs) for one in inputs]
    return [replace(one, reaching=frozenset(reaching)) for one in found]


def _read_of(node: cst.ClassDef) -> list[cst.CSTNode]:
    """What is written out of a class: all but the parameters of its constructor, of which the defaults are."""
    found: list[cst.CSTNode] = [arg.value for arg in node.bases]
    for part in suites.suite_of(node.body.body):
        if not isinstance(part, cst.FunctionDef) or part.name.value != "__init__":
            found.append(part)
            continue
        parameters = [*part.params.params, *part.params.kwonly_params]
        found += [part.body, *(nodes.bare(one.default) for one in parameters if one.default is not None)]
    return found
