"""Classes of optimizers that functions are given: `def fit(model, lr, opt_func=torch.optim.SGD)`.

What optax has in the place of a class depends on the arguments that it is called with, and on the schedules and groups
that go with it. So the input is taken as if the function named the class itself, where all callers give it the same
one, and else as if they gave the name:

optimizer = opt_func(model.parameters(), lr)      optimizer = torch.optim.Adam(model.parameters(), lr)
fit(model, 0.1, torch.optim.Adam)                 fit(model, 0.1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Exchanging
from migrate.lowering.rounds import Input
from migrate.optimizers import OPTIMIZERS
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import functions_around, only_called, times_defined
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


@dataclass(frozen=True, eq=False)
class _Taker:
    """A function with a parameter of which all values are known to be classes of optimizers. called: the name that it
    is called by, which for a constructor is that of its class. given: the arguments, each with its call and its class;
    of the default the call is None."""

    file: str
    function: cst.FunctionDef
    called: str
    parameter: cst.Param
    given: tuple[tuple[cst.Call | None, Expr, str], ...]

    @property
    def classes(self) -> list[str]:
        """The names of torch's that it is given."""
        return list(dict.fromkeys(name for _, _, name in self.given))

    @property
    def uses(self) -> list[cst.Name]:
        """Where it reads the parameter."""
        return [one for one in every(self.function.body, cst.Name) if one.value == self.parameter.name.value]


def with_optimizer_classes_told(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such functions; what one hands on to another is told one after the other."""
    made = list(inputs)
    while taker := next(_takers(made), None):
        made = [_told(file, taker) for file in made]
    return made


# -- what is given ----------------------------------------------------------------------------------------------------


def _takers(inputs: Sequence[Input]) -> Iterator[_Taker]:
    if not any("optim" in one.source.text for one in inputs):
        return
    imports = {one.scope: imported_names(one.source.module) for one in inputs}
    modules = [one.source.module for one in inputs]
    named = times_defined(modules)
    calls: dict[str, list[tuple[Input, cst.Call]]] = {}
    for one in inputs:
        for call in every(one.source.module, cst.Call):
            calls.setdefault(_last(call.func), []).append((one, call))
    for file in inputs:
        for called, function, method in _functions(file.source.module):
            parameters = [*function.params.params[method:], *function.params.kwonly_params]
            of_it = calls.get(called, [])
            for parameter in parameters if named[called] == 1 else ():
                given = _given(file, parameter, [one.name.value for one in parameters], of_it, imports)
                if not given or not _may_be_class(function, parameter):
                    continue
                taker = _Taker(file.scope, function, called, parameter, tuple(given))
                if _can_be_told(taker, imports[file.scope]) and all(
                    only_called(module, called, classes=True) for module in modules
                ):
                    yield taker


def _functions(module: cst.Module) -> Iterator[tuple[str, cst.FunctionDef, bool]]:
    """The functions and methods of a file with the names that they are called by, and whether they are methods."""
    for node in suites.suite_of(module.body):
        if isinstance(node, cst.FunctionDef):
            yield node.name.value, node, False
        elif isinstance(node, cst.ClassDef):
            for one in suites.suite_of(node.body.body):
                if isinstance(one, cst.FunctionDef) and not one.decorators:
                    constructor = one.name.value == "__init__"
                    yield node.name.value if constructor else one.name.value, one, True


def _may_be_class(function: cst.FunctionDef, parameter: cst.Param) -> bool:
    """Whether a function calls a parameter, or hands it on, and binds it to nothing else."""
    name = parameter.name.value
    called = any(nodes.dotted(one.func) == name for one in every(function.body, cst.Call))
    handed = any(nodes.dotted(one.value) == name for one in every(function.body, cst.Arg))
    inner = any(name in _parameters(one) for one in every(function.body, (cst.FunctionDef, cst.Lambda)))
    return (called or handed) and not inner and name not in usage.stores(function.body)


def _parameters(function: cst.FunctionDef | cst.Lambda) -> set[str]:
    return {one.name.value for one in every(function.params, cst.Param)}


def _last(func: Expr) -> str:
    """The name by which a function is called, of whatever object."""
    return func.attr.value if isinstance(func, cst.Attribute) else nodes.dotted(func) or ""


def _given(
    file: Input,
    parameter: cst.Param,
    names: Sequence[str],
    calls: Sequence[tuple[Input, cst.Call]],
    imports: Mapping[str, Mapping[str, str]],
) -> list[tuple[cst.Call | None, Expr, str]] | None:
    """What a parameter is given; None where that is not always a class of optimizers."""
    values: list[tuple[Input, cst.Call | None, Expr]] = []
    for one, call in calls:
        if any(arg.star for arg in call.args):
            return None
        found = dict(zip(argument_names(call.args, names), call.args, strict=True)).get(parameter.name.value)
        if found is not None:
            values.append((one, call, found.value))
        elif parameter.default is None:
            return None
    if len(values) < len(calls) or not calls:
        if parameter.default is None:
            return None
        values.append((file, None, parameter.default))
    classes = [_class_named(value, one, imports[one.scope]) for one, _, value in values]
    if "" in classes:
        return None
    return [(call, value, name) for (_, call, value), name in zip(values, classes, strict=True)]


def _class_named(value: Expr, file: Input, imported: Mapping[str, str]) -> str:
    """The class of optimizers that an expression is, or a name that is bound once where it is read; "" of others."""
    name = full_name(value, imported)
    if isinstance(value, cst.Name) and not name:
        bound = _bound_to(value, file.source.module)
        name = full_name(bound, imported) if bound is not None else ""
    return name if name in OPTIMIZERS and not OPTIMIZERS[name].evaluates else ""


def _bound_to(name: cst.Name, module: cst.Module) -> Expr | None:
    """What the one statement binds a name to that does so, in the function around it, or outside of functions."""
    around = functions_around(name, module)
    if any(name.value in _parameters(one) for one in around):
        return None
    own = [one for one in around if isinstance(one, cst.FunctionDef) and name.value in usage.stores(one.body)]
    scope = own[-1].body if own else module
    lines = every(scope, cst.SimpleStatementLine, closed=(cst.FunctionDef, cst.ClassDef, cst.Lambda))
    bound = [value for line in lines for found, value in [suites.name_and_value(line)] if found == name.value]
    stored = usage.stores(scope if own else module.body).count(name.value)
    return bound[0] if len(bound) == stored == 1 else None


def _can_be_told(taker: _Taker, imported: Mapping[str, str]) -> bool:
    """Whether the file of a function can name the classes, and of several the function does nothing but call one."""
    if any(_spelled(name, imported) is None for name in taker.classes):
        return False
    callees = {id(one.func) for one in every(taker.function.body, cst.Call)}
    return len(taker.classes) == 1 or all(id(one) in callees for one in taker.uses)


def _spelled(name: str, imported: Mapping[str, str]) -> str | None:
    """A class of torch.optim as a file can name it; None where it imports nothing of the sort."""
    short = name.rpartition(".")[2]
    for own, full in imported.items():
        if name == full:
            return own
        if name == f"{full}.{short}":
            return f"{own}.{short}"
    return name if imported.get("torch") == "torch" else None


# -- what is told -----------------------------------------------------------------------------------------------------


def _told(file: Input, taker: _Taker) -> Input:
    """A file with the classes named in the function, if it has that, and with its calls."""
    instead: dict[cst.CSTNode, Any] = {}
    several, shortened = len(taker.classes) > 1, set[cst.CSTNode]()
    if file.scope == taker.file:
        imported = imported_names(file.source.module)
        by_name = [
            (name.rpartition(".")[2], nodes.expression(_spelled(name, imported) or "")) for name in taker.classes
        ]
        choice = nodes.expression("{d}[{n}]", d=nodes.dict_of(by_name), n=taker.parameter.name)
        instead |= {use: (choice if several else by_name[0][1]).deep_clone() for use in taker.uses}
        if not several:
            instead[taker.parameter] = cst.RemoveFromParent()
            shortened.add(taker.function.params)
    for call, value, name in taker.given:
        if several:
            instead[value] = cst.SimpleString(f'"{name.rpartition(".")[2]}"')
        elif call is not None:
            instead |= {arg: cst.RemoveFromParent() for arg in call.args if arg.value is value}
            shortened.add(call)
    return file.visited(_Telling(instead, shortened, dict(file.source.positions)))


class _Telling(Exchanging):
    """Takes arguments and parameters out, with the commas before them."""

    def __init__(
        self, instead: Mapping[cst.CSTNode, Any], shortened: set[cst.CSTNode], positions: dict[cst.CSTNode, CodeRange]
    ) -> None:
        super().__init__(instead, positions)
        self.shortened = shortened

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if original_node not in self.shortened or not updated_node.args:
            return updated_node
        return updated_node.with_changes(args=nodes.separated(updated_node.args))

    def leave_Parameters(self, original_node: cst.Parameters, updated_node: cst.Parameters) -> cst.Parameters:
        if original_node not in self.shortened:
            return updated_node
        params, only = updated_node.params, updated_node.kwonly_params
        return updated_node.with_changes(params=nodes.separated(params), kwonly_params=nodes.separated(only))
