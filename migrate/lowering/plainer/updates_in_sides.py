"""Updates behind a branch of which one side draws on the host, as CutMix does for some batches: `if r < p:` mixes the
batch and weighs two losses, `else:` takes one.

What jit traces has no place for such draws. The input is taken as if the update stood in both sides, each with a step
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from migrate.lowering.host.host_draws import DRAWS
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.lowering.updates.region import method_call_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_LONGEST = 8  # statements that are written twice
_CLOSED = (cst.FunctionDef, cst.ClassDef, cst.For, cst.While, cst.With, cst.Try)


def with_updates_in_sides(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such updates in both sides of their branches."""
    return [one.edited(_edits(one.source.module)) if "random" in one.source.text else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    imported = imported_names(module)
    functions = [one for one in module.body if isinstance(one, cst.FunctionDef)]
    drawing = {one.name.value for one in functions if _draws(one, imported, set())}
    for block in every(module, (cst.IndentedBlock, cst.Module)):
        for branch, tail in _branches(suites.suite_of(block.body), imported, drawing):
            edits.instead[branch] = [_with_tail(branch, tail)]
            edits.instead |= {line: [] for line in tail}
    return edits


def _branches(
    body: Sequence[Statement], imported: Mapping[str, str], drawing: set[str]
) -> Iterator[tuple[cst.If, Sequence[Statement]]]:
    """The branches of a suite whose sides compute a loss each, with the statements up to the end of its update."""
    for at, branch in enumerate(body):
        if not isinstance(branch, cst.If) or not isinstance(branch.orelse, cst.Else):
            continue
        here = [n for n, line in enumerate(body[at + 1 :], at + 1) if _is_update(line)]
        tail = body[at + 1 : here[-1] + 1] if here else []
        losses = {name for line in tail if (name := _loss(line))}
        sides = suites.sides(branch)
        apart = all(losses <= set(usage.stores(side)) for side in sides) and not _goes_backward(branch)
        short = len(tail) <= _LONGEST and not any(any(every(line, _CLOSED)) for line in tail)
        drawn = any(_draws(line, imported, drawing) for side in sides for line in side)
        if losses and apart and short and drawn and not any(suites.may_leave(line) for line in (branch, *tail)):
            yield branch, tail


def _loss(line: Statement) -> str:
    receiver = method_call_of(line, "backward")
    return nodes.dotted(receiver.value) or "" if receiver is not None else ""


def _goes_backward(node: cst.CSTNode) -> bool:
    return any(func.attr.value == "backward" for func in usage.methods_called(node))


def _is_update(line: Statement) -> bool:
    """Whether a statement goes backward, or steps, for itself or under a condition."""
    methods = {func.attr.value for func in usage.methods_called(line)}
    return not isinstance(line, _CLOSED) and (_loss(line) != "" or bool(methods & {"step", "zero_grad"}))


def _draws(node: cst.CSTNode, imported: Mapping[str, str], drawing: set[str]) -> bool:
    """Whether code draws with Python or numpy, itself or by one of some functions."""
    called = [call.func for call in usage.calls(node)]
    return any(full_name(func, imported).startswith(DRAWS) or nodes.dotted(func) in drawing for func in called)


def _with_tail(branch: cst.If, tail: Sequence[Statement]) -> cst.If:
    assert isinstance(branch.orelse, cst.Else)
    first, second = suites.sides(branch)
    again = [line.deep_clone() for line in tail]
    other = branch.orelse.with_changes(body=suites.block_of(branch.orelse.body, [*second, *again]))
    return branch.with_changes(body=suites.block_of(branch.body, [*first, *tail]), orelse=other)
