"""`if recurrent: hidden = ...` before a training loop that reads `hidden` in such a branch again. A step takes it as an
argument, whichever way it goes: it is None where nothing sets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.lowering.updates.region import first_backward
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_LOOPS = (cst.For, cst.While)
_NONE_INSIDE = (cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef, cst.Match)  # no loop that is followed here


def with_names_set(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such names set to None first."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    for body in suites.bodies(module):
        for loop in every(body, _LOOPS):
            turn = suites.suite_of(loop.body.body)
            end = first_backward(turn)
            before = _before(suites.suite_of(body.body), loop) if end is not None else []
            for name in _read_in_branches(turn[:end]) if before else ():
                branch = _set_by(before, name)
                if branch is not None:
                    edits.ahead.setdefault(branch, []).append(nodes.statement("{name} = None", name=nodes.name(name)))
    return edits


def _before(body: Sequence[Statement], loop: cst.CSTNode) -> list[Statement]:
    """The statements that run before a loop: those of the suites around it. None where it is in another function."""
    for number, statement in enumerate(body):
        if statement is loop:
            return list(body[:number])
        if isinstance(statement, _NONE_INSIDE):
            continue
        if any(one is loop for one in every(statement, _LOOPS)):
            return [*body[:number], *_before(suites.suite_of(statement.body.body), loop)]
    return []


def _read_in_branches(forward: Sequence[Statement]) -> Iterator[str]:
    """The names that branches of a forward pass read to compute what others need, and that nothing reads besides."""
    for name in dict.fromkeys(usage.loads(forward)):
        reading = [one for one in forward if name in usage.loads(one)]
        computing = [one for branch in reading for one in every(branch, cst.Assign) if name in usage.loads(one.value)]
        if computing and all(isinstance(one, cst.If) and name not in usage.loads(one.test) for one in reading):
            yield name


def _set_by(before: Sequence[Statement], name: str) -> cst.If | None:
    """The branch that is the first to set a name, where the name may not be there after some statements."""
    setting = [one for one in before if name in usage.stores(one)]
    first = setting[0] if setting else None
    surely = usage.first_access(before, name) == "store"
    return first if isinstance(first, cst.If) and not surely else None
