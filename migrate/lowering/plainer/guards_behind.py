"""Turns of a loop that are given up where the loss is not finite: asked behind the backward pass.

loss = criterion(net(x), y)
if not torch.isfinite(loss):            loss = criterion(net(x), y)
    continue                            optimizer.zero_grad()
optimizer.zero_grad()                   loss.backward()
loss.backward()                         if not torch.isfinite(loss):
optimizer.step()                            continue
                                        optimizer.step()

A forward and its backward pass are one function of JAX's; what follows them decides on the step. The gradients of a
turn that is given up are cleared by the next one, before anything reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


def with_guards_behind(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such tests behind the backward pass; none where some file reads gradients."""
    if any("backward" in one.source.text and "grad" in usage.attributes(one.source.module) for one in inputs):
        return list(inputs)
    return [one.edited(_edits(one.source.module)) if ".backward(" in one.source.text else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    instead: dict[Statement, list[Statement]] = {}
    passes = [one for one in every(module, cst.Attribute) if one.attr.value == "backward"]
    alone = len(passes) == 1  # what is cleared behind its step is so ahead of it the next time
    for block in every(module, cst.IndentedBlock):
        statements = suites.suite_of(block.body)
        for number, statement in enumerate(statements):
            if _method(statement) != "backward":
                continue
            before, after = statements[:number], statements[number + 1 :]
            moved = _moved(before, statement)
            if not moved:
                continue
            ahead = [one for one in before if _clears(one)]
            behind = [one for one in after if _clears(one)] if alone and not ahead else []
            if ahead or behind:
                instead |= {each: [] for each in (*moved, *behind)}
                instead[statement] = [*behind, statement, *moved]
    return Edits(instead)


def _moved(before: Sequence[Statement], backward: Statement) -> list[Statement]:
    """What follows a backward pass as well, from the first test of the loss on that may give up the turn: all that is
    ahead of the pass but clearing gradients."""
    needed = set(usage.loads(backward))
    of_loss = set(needed)
    first = len(before)
    for number, statement in enumerate(before):
        if not of_loss & set(usage.loads(statement)):
            continue
        if isinstance(statement, cst.If) and suites.leaves_loop(statement):
            first = min(first, number)
        elif first == len(before):
            of_loss |= set(usage.stores(statement))
    moved = [one for one in before[first:] if not _clears(one)]
    plain = all(isinstance(one, cst.If | cst.SimpleStatementLine) for one in moved)
    changed = {name for one in moved for name in usage.changes(one)}
    return moved if plain and not changed & needed else []


def _clears(statement: Statement) -> bool:
    return _method(statement) == "zero_grad"


def _method(statement: Statement) -> str:
    """The name of the method that a statement calls, and does nothing else."""
    call = suites.call_alone(statement)
    return call.func.attr.value if call is not None and isinstance(call.func, cst.Attribute) else ""
