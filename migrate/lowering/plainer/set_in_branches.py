"""`if recurrent: hidden = ...` before a training loop that reads `hidden` in such a branch again. A step takes it as an
argument, whichever way it goes: it is None where nothing sets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.lowering.updates.region import method_call_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_LOOPS = (cst.For, cst.While)
_OF_ITS_OWN = cst.FunctionDef | cst.ClassDef


def with_names_set(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such names set to None first."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    for body in (module, *(one.body for one in every(module, cst.FunctionDef))):
        for loop in every(body, _LOOPS):
            if not any(method_call_of(one, "backward") for one in suites.suite_of(loop.body.body)):
                continue
            before = _before(suites.suite_of(body.body), loop)
            for name in dict.fromkeys(_read_in_branches(suites.suite_of(loop.body.body))):
                branch = _set_by(before, name)
                if branch is not None:
                    edits.ahead.setdefault(branch, []).append(nodes.statement("{name} = None", name=nodes.name(name)))
    return edits


def _before(body: Sequence[Statement], loop: cst.CSTNode) -> list[Statement]:
    """The statements of a function that run before a loop: those of the suites around it. None where the loop is in a
    function of its own inside."""
    for number, statement in enumerate(body):
        if statement is loop:
            return list(body[:number])
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) or all(
            one is not loop for one in every(statement, _LOOPS)
        ):
            continue
        inner = statement.body if isinstance(statement, cst.BaseCompoundStatement) else None
        found = _before(suites.suite_of(inner.body), loop) if inner is not None else []
        return [*body[:number], *found]
    return []


def _read_in_branches(turn: Sequence[Statement]) -> Iterator[str]:
    """The names that branches of a turn read to compute what others need, and that nothing reads besides."""
    end = next(number for number, one in enumerate(turn) if method_call_of(one, "backward"))
    for name in dict.fromkeys(usage.loads(turn[:end])):
        reading = [one for one in turn[:end] if name in usage.loads(one)]
        computing = [one for branch in reading for one in every(branch, cst.Assign) if name in usage.loads(one.value)]
        if computing and all(isinstance(one, cst.If) and name not in usage.loads(one.test) for one in reading):
            yield name


def _set_by(before: Sequence[Statement], name: str) -> cst.If | None:
    """The branch that is the first to set a name, where the name may not be there after some statements."""
    setting = [one for one in before if name in usage.stores(one)]
    first = setting[0] if setting else None
    surely = usage.first_access(before, name) == "store"
    return first if isinstance(first, cst.If) and not surely else None
