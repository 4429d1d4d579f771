"""Functions that a method defines for others to call, and that need nothing of it but `self`:

def _make_step(self):
    def step(x, y):
        self.model.train()
        ...
    return step

The state of an object is found where its methods use it. The input is taken as if `step` were one of them, and the
method gave `self.step`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import times_defined
from migrate.syntax.walking import every

_ALONE = ((), ("object",))  # the bases of classes that no other one tells what their attributes are


def with_functions_as_methods(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such functions as methods."""
    defined = times_defined(one.source.module for one in inputs)
    attributes = {name for one in inputs for name in usage.attributes(one.source.module)}
    alone = {name for name, times in defined.items() if times == 1} - attributes
    return [one.edited(_edits(one.source.module, alone)) for one in inputs]


def _edits(module: cst.Module, alone: set[str]) -> Edits:
    edits = Edits()
    for node in every(module, cst.ClassDef):
        if tuple(map(nodes.dotted, (base.value for base in node.bases))) not in _ALONE or node.keywords:
            continue
        if not usage.works_on_models(node):
            continue
        for maker in suites.suite_of(node.body.body):
            if not isinstance(maker, cst.FunctionDef) or maker.decorators or _first_parameter(maker) != "self":
                continue
            for function in list(_given_out(maker)):
                if function.name.value in alone:
                    _as_method(edits, maker, function)
    return edits


def _as_method(edits: Edits, maker: cst.FunctionDef, function: cst.FunctionDef) -> None:
    name, statements = function.name.value, suites.suite_of(maker.body.body)
    own = nodes.expression(f"self.{name}")
    edits.instead[function] = []
    edits.behind.setdefault(maker, []).append(_method(function))
    for statement in statements:
        if statement is function or not isinstance(statement, cst.SimpleStatementLine):
            continue
        (made,) = edits.instead.get(statement, [statement])
        if edits.instead.get(statements[0]) == [] and statement is statements[1]:
            lines = [line for line in statement.leading_lines if line.comment is not None]
            made = made.with_changes(leading_lines=lines)
        edits.instead[statement] = [nodes.substituted(made, {name: own})]


def _first_parameter(maker: cst.FunctionDef) -> str:
    parameters = [*maker.params.posonly_params, *maker.params.params]
    return parameters[0].name.value if parameters else ""


def _given_out(maker: cst.FunctionDef) -> Iterator[cst.FunctionDef]:
    """The functions of a method that it returns, and that read nothing else that it binds."""
    statements = suites.suite_of(maker.body.body)
    for function in statements:
        if not isinstance(function, cst.FunctionDef) or function.decorators or function.asynchronous is not None:
            continue
        others = [statement for statement in statements if statement is not function]
        parameters = {one.name.value for one in every(maker.params, cst.Param)} - {"self"}
        bound = parameters | set(usage.stores(others)) | {function.name.value}
        read = set(usage.loads(function))
        own = {one.name.value for one in every(function.params, cst.Param)}
        if "self" not in read or "self" in {*own, *usage.stores([function.body, *others])} or read & bound:
            continue
        lines = [one for one in others if isinstance(one, cst.SimpleStatementLine)]
        named = usage.loads(others).count(function.name.value)
        given = [nodes.dotted(one.value) for line in lines for one in usage.returns(line) if one.value is not None]
        if function.name.value in given and usage.loads(lines).count(function.name.value) == named:
            yield function


def _method(function: cst.FunctionDef) -> cst.FunctionDef:
    params = function.params
    first = cst.Param(nodes.name("self"))
    if params.posonly_params:
        params = params.with_changes(posonly_params=[first, *params.posonly_params])
    else:
        params = params.with_changes(params=[first, *params.params])
    comments = [line for line in function.leading_lines if line.comment is not None]
    return function.with_changes(params=params, leading_lines=[cst.EmptyLine(indent=False), *comments])
