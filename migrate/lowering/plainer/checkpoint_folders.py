"""Checkpoints that are to be folders: what a script does with their files by `os` and `shutil`.

A path is one of a checkpoint's where the same words name what is saved or loaded in the file. It is asked for by
`os.path.exists`, copied by `shutil.copytree`, and removed by `shutil.rmtree`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_COPIES = frozenset({"shutil.copyfile", "shutil.copy", "shutil.copy2", "copyfile", "copy2"})
_REMOVES = frozenset({"os.remove", "os.unlink"})


def with_checkpoint_folders(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with folders in the place of the files that they save and load."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    paths = {nodes.code(one) for one in _places(module)}
    if not paths:
        return Edits()
    edits = Edits()
    for call in every(module, cst.Call):
        made = _asked(call, paths)
        if made is not None:
            edits.parts[call] = made
    for line in every(module, cst.SimpleStatementLine):
        instead = _moved(line, paths)
        if instead:
            edits.instead[line] = instead
    return edits


def _places(module: cst.Module) -> Iterator[Expr]:
    """Where a file saves something to, or loads it from."""
    for call in every(module, cst.Call):
        place = {"torch.save": 1, "torch.load": 0}.get(nodes.dotted(call.func) or "")
        if place is not None and len(call.args) > place and not any(arg.star for arg in call.args):
            yield call.args[place].value


def _asked(call: cst.Call, paths: set[str]) -> Expr | None:
    """What stands for `os.path.isfile(path)` and `path.is_file()`; None for other calls."""
    if nodes.dotted(call.func) == "os.path.isfile" and {nodes.code(arg.value) for arg in call.args} & paths:
        return call.with_changes(func=nodes.expression("os.path.exists"))
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value == "is_file" and nodes.code(func.value) in paths:
        return call.with_changes(func=func.with_changes(attr=cst.Name("exists")))
    return None


def _moved(line: cst.SimpleStatementLine, paths: set[str]) -> list[Statement]:
    """What stands for the copy or the removal of a checkpoint; nothing for other statements."""
    small = suites.alone(line)
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return []
    given = [arg.value for arg in call.args]
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "unlink" and not given:
        given, removes = [call.func.value], True
    else:
        removes = nodes.dotted(call.func) in _REMOVES
    if not given or nodes.code(given[0]) not in paths:
        return []
    if removes:
        return [nodes.statement("shutil.rmtree({path})", path=given[0])]
    if nodes.dotted(call.func) not in _COPIES or len(given) != 2:
        return []
    return [
        nodes.statement("shutil.rmtree({target}, ignore_errors=True)", target=given[1]),
        nodes.statement("shutil.copytree({path}, {target})", path=given[0], target=given[1]),
    ]
