"""Parts that a constructor freezes before it keeps them:

net = nn.Sequential(*list(vgg.features)[:31])
for p in net.parameters():
    p.requires_grad = False
self.net = net

The input is taken as if the loop stood behind, and went over what is kept: `self.net.parameters()`.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.lowering.weights.freezing import only_switches
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_LISTING = ("parameters", "named_parameters")


def with_freezing_of_what_is_kept(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such loops behind."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    for node in every(module, cst.ClassDef):
        for method in suites.suite_of(node.body.body):
            if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                body = suites.suite_of(method.body.body)
                for number, statement in enumerate(body):
                    if isinstance(statement, cst.For):
                        _moved(edits, statement, body[number + 1 :])
    return edits


def _moved(edits: Edits, loop: cst.For, rest: Sequence[Statement]) -> None:
    name = _frozen(loop)
    after = next((one for one in rest if name in usage.loads(one) or name in usage.changes(one)), None)
    kept = _kept_as(after, name) if name and after is not None else None
    if kept is None or after is None:
        return
    edits.instead[loop] = []
    moved = nodes.substituted(loop, {name: kept}).with_changes(leading_lines=loop.leading_lines)
    edits.behind.setdefault(after, []).append(moved)


def _frozen(loop: cst.For) -> str:
    """The variable whose weights a loop freezes, and does nothing else with; "" for other loops."""
    func = loop.iter.func if isinstance(loop.iter, cst.Call) else None
    owner = func.value if isinstance(func, cst.Attribute) and func.attr.value in _LISTING else None
    if not isinstance(owner, cst.Name) or owner.value == "self" or not only_switches(loop):
        return ""
    return owner.value if owner.value not in usage.loads(loop.body) else ""


def _kept_as(statement: Statement, name: str) -> Expr | None:
    """The attribute of `self` that a variable is kept as by a statement; None for other statements."""
    match suites.alone(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() as target)], value=cst.Name(value=value)):
            return target if value == name and nodes.dotted(target.value) == "self" else None
    return None
