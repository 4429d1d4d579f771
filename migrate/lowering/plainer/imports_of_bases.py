"""What methods of a class in another file read there is imported where a class has them written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.files.source import SourceFile
from migrate.known.kinds import TorchName
from migrate.known.qualified import file_of
from migrate.known.script import Script, followed
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every


def imports_of(
    files: Mapping[str, Input], script: Script, name: str, methods: Mapping[str, Sequence[cst.CSTNode]]
) -> list[cst.SimpleStatementLine]:
    """The imports that a class needs for methods of classes of other files. Raises LookupError where there are none."""
    here = files[file_of(name)]
    own = set(usage.stores(here.source.module))
    made: list[cst.SimpleStatementLine] = []
    for cls, taken in methods.items():
        there = files[file_of(cls)]
        known = usage.stores(there.source.module)
        for read in dict.fromkeys(usage.loads(taken)):
            if read not in known:
                continue
            line = _import(there, here, read)
            if read not in own:
                made.append(line)
            elif not _is_same(here, there, script, read, line):
                raise LookupError(read)
    return made


def _import(there: Input, here: Input, name: str) -> cst.SimpleStatementLine:
    """What binds a name of another file in this one: the same import, or one from that file."""
    changed = {each.value for line in every(there.source.module, cst.Global) for each in every(line, cst.Name)}
    if usage.stores(there.source.module).count(name) != 1 or name in changed:
        raise LookupError(name)
    for line in there.source.module.body:
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Import | cst.ImportFrom) and name in usage.stores(line):
            return _alone(small, name, there.scope.rpartition("/")[0] == here.scope.rpartition("/")[0])
    links = [*here.links.items(), *((text, scope) for text, scope in there.links.items() if not text.startswith("."))]
    modules = [text for text, scope in links if scope == there.scope]
    if not modules:
        raise LookupError(name)
    return nodes.statement(f"from {modules[0]} import {name}")


def _alone(small: cst.Import | cst.ImportFrom, name: str, beside: bool) -> cst.SimpleStatementLine:
    """An import of one name alone. `beside`: it goes to a file of the same folder."""
    if isinstance(small.names, cst.ImportStar) or (isinstance(small, cst.ImportFrom) and small.relative and not beside):
        raise LookupError(name)
    (alias,) = [one for one in small.names if name in usage.stores(one)]
    made = small.with_changes(names=[alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)])
    if isinstance(made, cst.ImportFrom):
        made = made.with_changes(lpar=None, rpar=None)
    return cst.SimpleStatementLine([made.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])


def _is_same(here: Input, there: Input, script: Script, name: str, line: cst.SimpleStatementLine) -> bool:
    """Whether a name means the same in both files."""
    if usage.stores(here.source.module).count(name) != 1:
        return False
    own, theirs = (script.finals.get(one.scope, {}).get(name) for one in (here, there))
    if isinstance(own, TorchName) and own == theirs:  # `import torch.nn as nn`, `from torch import nn`
        return True
    if followed(script.taken_from, (here.scope, name)) == followed(script.taken_from, (there.scope, name)):
        return True
    try:
        return _import(here, here, name).deep_equals(line)
    except LookupError:
        return False


def with_imports(
    one: Input, source: SourceFile, lines: Sequence[cst.SimpleStatementLine], inputs: Sequence[Input]
) -> Input:
    """A file with more imports, behind its own; what they reach is known of the files that they are from."""
    if not lines:
        return replace(one, source=source)
    body = list(source.module.body)
    others = (at for at, each in enumerate(body) if not (suites.is_import(each) or suites.is_docstring(each)))
    at = next(others, len(body))
    module = source.module.with_changes(body=[*body[:at], *lines, *body[at:]])
    links = {text: scope for each in inputs for text, scope in each.links.items() if not text.startswith(".")}
    return replace(one, source=source.with_module(module, source.positions), links={**links, **one.links})
