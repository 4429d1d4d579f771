"""Lists of what steps give, `losses = [step(net, opt, x) for x in batches]`, as loops: a step changes weights, which
the next one goes by, and an expression has no place for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits, Exchanging
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_Row = cst.ListComp | cst.GeneratorExp


def with_steps_in_loops(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such lists filled by loops."""
    return [one.edited(_edits(one.source.module)) if ".backward(" in one.source.text else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    steps = {
        one.name.value
        for one in module.body
        if isinstance(one, cst.FunctionDef) and "backward" in usage.attributes(one.body) and not one.decorators
    }
    instead: dict[Statement, list[Statement]] = {}
    for line in every(module, cst.SimpleStatementLine) if steps else ():
        rows = [row for row in every(line, (cst.ListComp, cst.GeneratorExp)) if _calls(row.elt) & steps]
        if len(rows) == 1 and len(line.body) == 1 and _is_first(line, rows[0]):
            instead[line] = suites.with_comments(list(_loop(line, rows[0], module)), line)
    return Edits(instead)


def _calls(node: cst.CSTNode) -> set[str]:
    return {call.func.value for call in usage.calls(node) if isinstance(call.func, cst.Name)}


def _is_first(line: cst.SimpleStatementLine, row: _Row) -> bool:
    """Whether a statement evaluates a list before anything that its steps may change, or that may change them: all of
    its other calls are around the list."""
    inside, each = {*usage.calls(row)}, row.for_in
    around = all(call in inside or row in every(call, (cst.ListComp, cst.GeneratorExp)) for call in usage.calls(line))
    plain = (
        each.inner_for_in is None
        and each.asynchronous is None
        and isinstance(line.body[0], cst.Assign | cst.Expr | cst.Return)
    )
    whole = isinstance(row, cst.ListComp) or any(_takes_all(call, row) for call in usage.calls(line))
    return around and plain and whole and bool(usage.target_names(each.target))


def _takes_all(call: cst.Call, row: _Row) -> bool:
    """Whether a call goes through all that a generator gives."""
    return nodes.dotted(call.func) in ("sum", "list", "tuple", "max", "min", "sorted") and call.args[0].value is row


def _loop(line: cst.SimpleStatementLine, row: _Row, module: cst.Module) -> Iterator[Statement]:
    taken = {*usage.loads(module), *usage.stores(module)}
    name, value = suites.name_and_value(line)
    listed = name if value is row and name not in usage.loads(row) else usage.unused_name("results", taken)
    turns = usage.target_names(row.for_in.target)
    elsewhere = [one for one in [*usage.loads(module), *usage.stores(module)] if one in turns]
    own = len(elsewhere) == len([one for one in usage.loads(row) if one in turns])
    bound: dict[str, Expr] = (
        {} if own else {one: nodes.name(usage.unused_name(one, taken)) for one in turns if one != "_"}
    )
    added = nodes.statement(f"{listed}.append({{x}})", x=nodes.copied(row.elt, bound))
    tests = [nodes.copied(one.test, bound) for one in row.for_in.ifs]
    body: list[Statement] = [added]
    for test in reversed(tests):
        body = [cst.If(test, suites.block(body))]
    yield nodes.statement(f"{listed} = []")
    target = nodes.copied(row.for_in.target, bound)
    yield cst.For(target, row.for_in.iter.with_changes(lpar=[], rpar=[]), suites.block(body))
    if listed != name:
        yield nodes.visited(line, Exchanging({row: nodes.name(listed)}, {}))
