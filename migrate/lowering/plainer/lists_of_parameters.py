"""Lists of parameters that are filled bit by bit, written whole.

params = list(net.parameters())
params += list(head.parameters())
params.append(scale)

is taken as `params = [*net.parameters(), *head.parameters(), scale]`: what an optimizer is given is told by one
expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def with_parameters_listed(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such lists whole."""
    return [one.edited(_edits(one.source.module)) if ".parameters()" in one.source.text else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    instead: dict[Statement, list[Statement]] = {}
    for body in [module.body, *(block.body for block in every(module, cst.IndentedBlock))]:
        statements = suites.suite_of(body)
        for number, first in enumerate(statements):
            filled = list(_filled(first, statements[number + 1 :]))
            listed = [element for _, elements in filled for element in elements]
            if len(filled) > 1 and any(".parameters()" in nodes.code(one) for one in listed):
                last, target = filled[-1][0], suites.name_and_value(first)[0]
                instead |= {each: [] for each, _ in filled}
                instead[last] = [nodes.statement(f"{target} = {{whole}}", whole=cst.List(nodes.separated(listed)))]
    return Edits(instead)


def _filled(first: Statement, later: Sequence[Statement]) -> Iterator[tuple[Statement, list[cst.BaseElement]]]:
    """A statement that starts a list, and those that fill it before anything else is done with it, each with the
    elements that it adds."""
    name, value = suites.name_and_value(first)
    elements = _listed(value) if name and value is not None else None
    if elements is None:
        return
    yield first, elements
    between, read = set[str](), set(usage.loads(first))
    for statement in later:
        added = _added(statement, name)
        if added is None and name in {*usage.loads(statement), *usage.stores(statement)}:
            return
        if added is None:
            between |= set(usage.stores(statement))
        elif between & read:
            return
        else:
            yield statement, added
            read |= set(usage.loads(statement)) - {name}


def _added(statement: Statement, name: str) -> list[cst.BaseElement] | None:
    """The elements that a statement, or a loop over what is written out, adds at the end of a list; None of others."""
    if isinstance(statement, cst.For):
        return _added_in_turn(statement, name)
    match suites.alone(statement):
        case cst.AugAssign(target=cst.Name(value=target), operator=cst.AddAssign(), value=more) if target == name:
            return _listed(more) or [cst.StarredElement(more)]
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=target))],
            value=cst.BinaryOperation(left=cst.Name(value=left), operator=cst.Add(), right=more),
        ) if target == left == name:
            return _listed(more)
        case cst.Expr(
            value=cst.Call(
                func=cst.Attribute(value=cst.Name(value=target), attr=cst.Name(value="append" | "extend" as method)),
                args=[cst.Arg(value=more, keyword=None, star="")],
            )
        ) if target == name:
            return [cst.Element(more)] if method == "append" else (_listed(more) or [cst.StarredElement(more)])
    return None


def _added_in_turn(loop: cst.For, name: str) -> list[cst.BaseElement] | None:
    """The elements that `for part in (net, head): params += part.parameters()` adds."""
    body = suites.suite_of(loop.body.body)
    each = _added(body[0], name) if len(body) == 1 and loop.orelse is None and loop.asynchronous is None else None
    match loop:
        case cst.For(target=cst.Name(value=part), iter=cst.Tuple() | cst.List() as row) if each is not None:
            turns = nodes.elements(row) if all(isinstance(one, cst.Element) for one in row.elements) else []
            return [nodes.substituted(one, {part: turn}) for turn in turns for one in each] or None
    return None


def _listed(value: Expr) -> list[cst.BaseElement] | None:
    """The elements of a list as it is written; None of other values."""
    match value:
        case cst.List(elements=elements):
            return [one.with_changes(comma=cst.MaybeSentinel.DEFAULT) for one in elements]
        case cst.Call(func=cst.Name("list"), args=[]):
            return []
        case cst.Call(func=cst.Name("list"), args=[cst.Arg(value=source, keyword=None, star="")]):
            return [cst.StarredElement(source)]
        case cst.ListComp():
            return [cst.StarredElement(value)]
    return None
