"""Named layers that are put into a list first, as physics-informed networks have them:

    rows.append(("layer_%d" % i, nn.Linear(width, width)))
    ...
    layers = OrderedDict(rows)
    self.layers = nn.Sequential(layers)

They are taken as a dict that is filled by key: `layers["layer_%d" % i] = nn.Linear(width, width)`.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_TAKING = ("Sequential", "ModuleDict")


def with_pairs_as_dicts(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such lists as dicts."""
    if not any("OrderedDict(" in one.source.text for one in inputs):
        return list(inputs)
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    for function in every(module, cst.FunctionDef):
        for made in usage.calls(function.body):
            if (nodes.dotted(made.func) or "").rpartition(".")[2] == "OrderedDict":
                _take_as_dict(edits, function, made)
    return edits


def _take_as_dict(edits: Edits, function: cst.FunctionDef, made: cst.Call) -> None:
    """Notes what stands for a list of pairs that a dict is made of, which alone reads it, and for the dict."""
    pairs = made.args[0].value if len(made.args) == 1 else None
    if not isinstance(pairs, cst.Name) or made.args[0].star or made.args[0].keyword:
        return
    lines = list(every(function.body, cst.SimpleStatementLine))
    named = next((one for one in lines if suites.name_and_value(one)[1] is made), None)
    name = suites.name_and_value(named)[0] if named is not None else pairs.value
    start = [one for one in lines if _begins(one, pairs.value)]
    filling = {one: pair for one in lines if (pair := _appended(one, pairs.value)) is not None}
    mentions = sum(one.value == pairs.value for one in every(function, cst.Name))
    taken = [arg.value for call in usage.calls(function.body) if _takes_layers(call) for arg in call.args]
    given = any(one is made or nodes.dotted(one) == name for one in taken)
    if len(start) != 1 or not filling or mentions != len(filling) + 2 or not given:
        return
    if named is not None and usage.stores(function.body).count(name) != 1:
        return
    empty = made.with_changes(args=[])
    edits.instead[start[0]] = [
        nodes.statement(f"{name} = {{d}}", d=empty).with_changes(leading_lines=start[0].leading_lines)
    ]
    for line, (key, value) in filling.items():
        put = nodes.statement(f"{name}[{{k}}] = {{v}}", k=key, v=value)
        edits.instead[line] = [put.with_changes(leading_lines=line.leading_lines)]
    if named is not None:
        edits.instead[named] = []
    else:
        edits.parts[made] = nodes.name(name)


def _begins(line: Statement, name: str) -> bool:
    """Whether a line is `rows = []`, or `rows = list()`."""
    target, value = suites.name_and_value(line)
    return target == name and value is not None and nodes.code(value) in ("[]", "list()")


def _appended(line: Statement, name: str) -> tuple[Expr, Expr] | None:
    """The two of `rows.append((key, value))`; None of other lines."""
    call = suites.call_alone(line)
    if call is None or nodes.dotted(call.func) != f"{name}.append" or len(call.args) != 1:
        return None
    match call.args[0].value:
        case cst.Tuple(elements=[cst.Element(value=key), cst.Element(value=value)]):
            return key, value
    return None


def _takes_layers(call: cst.Call) -> bool:
    return (nodes.dotted(call.func) or "").rpartition(".")[2] in _TAKING
