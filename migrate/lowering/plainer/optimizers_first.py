"""An optimizer that a script makes between a forward pass and `backward()`, as notebooks do that go step by step:

prediction = model(x)                                     optimizer = optim.SGD(model.parameters(), lr=0.01)
loss = criterion(prediction, y)                           prediction = model(x)
optimizer = optim.SGD(model.parameters(), lr=0.01)        loss = criterion(prediction, y)
optimizer.zero_grad()                                     optimizer.zero_grad()
loss.backward()                                           loss.backward()

A training step is one function of the whole, which an optimizer is there for already. It is taken as if it had been
made before: nothing of the forward pass can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.lowering.updates.region import first_backward, method_call_of
from migrate.optimizers import OPTIMIZERS
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Statement


def with_optimizers_first(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such optimizers made before the forward pass."""
    return [one.edited(_edits(one.source.module)) if "backward(" in one.source.text else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits, imported = Edits(), imported_names(module)
    for body in suites.bodies(module):
        suite = suites.suite_of(body.body)
        for number, line in enumerate(suite):
            first = _place(suite, number, imported)
            if first is not None:
                edits.ahead.setdefault(suite[first], []).append(line)
                edits.instead[line] = []
    return edits


def _place(suite: Sequence[Statement], number: int, imported: Mapping[str, str]) -> int | None:
    """Where the optimizer of a line may be made as well, if a loss goes backward that was computed before the line."""
    name, made = suites.name_and_value(suite[number])
    if not isinstance(made, cst.Call) or full_name(made.func, imported) not in OPTIMIZERS:
        return None
    behind = first_backward(suite, number)
    func = method_call_of(suite[behind], "backward") if behind is not None else None
    loss = func.value if func is not None else None
    if not isinstance(loss, cst.Name) or loss.value in usage.stores(suite[number:behind]):
        return None
    read = {*usage.loads(made), name}
    first = next((at + 1 for at in range(number - 1, -1, -1) if read & set(usage.stores(suite[at]))), 0)
    between = suite[first:number]
    told = loss.value in usage.stores(between) and name not in usage.loads(between)
    return first if told and all(map(_only_computes, between)) else None


def _only_computes(statement: Statement) -> bool:
    """Whether a line gives names to what it computes, shows it or prints: it sets nothing of a model."""
    small = suites.alone(statement)
    if isinstance(small, cst.Assign):
        return all(isinstance(target.target, cst.Name) for target in small.targets)
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Name | cst.SimpleString):  # the mark of a cell, too
        return True
    call = suites.call_alone(statement)
    return call is not None and nodes.dotted(call.func) == "print"
