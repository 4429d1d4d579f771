"""Objects that only hold what they are given, `Stepper(model, optimizer)`: what they hold stands for them.

A class is left with nothing but its constructor where its method stands in the places of its calls
(`updates_in_place.py`). A function that is given such an object is given what it reads of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import libcst as cst

from migrate.files.source import SourceFile
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Exchanging
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_Item = TypeVar("_Item", cst.Param, cst.Arg)
_Scope = cst.FunctionDef | cst.Module
_Instead = dict[cst.CSTNode, Any]


class _Unclear(Exception):
    """What an object holds cannot be told, or it is more than what it holds."""


@dataclass(frozen=True)
class _Holder:
    """A class that only holds: the parameter, or the constant, that each attribute is."""

    node: cst.ClassDef
    init: cst.FunctionDef
    attributes: Mapping[str, Expr]

    def held(self, made: cst.Call) -> dict[str, Expr]:
        """What the attributes of a new object are, in terms of what is around its call."""
        params = self.init.params.params[1:]
        given = {one.name.value: one.default for one in params if one.default is not None}
        if any(arg.star for arg in made.args):
            raise _Unclear
        names = argument_names(made.args, [one.name.value for one in params])
        given |= dict(zip(names, (arg.value for arg in made.args), strict=True))
        try:
            found = {name: given.get(nodes.dotted(value) or "", value) for name, value in self.attributes.items()}
        except KeyError:
            raise _Unclear from None
        if given.keys() != {one.name.value for one in params}:
            raise _Unclear
        return found


def opened(source: SourceFile, cls: str) -> SourceFile:
    """A file without objects of a class that only holds; as it is where they are more than that."""
    try:
        instead = _Opening(source.module, _holder(source.module, cls)).instead()
    except _Unclear:
        return source
    positions = dict(source.positions)
    module = nodes.visited(source.module, Exchanging(instead, positions))
    return source.with_module(module, positions)


def _holder(module: cst.Module, cls: str) -> _Holder:
    found = [one for one in module.body if isinstance(one, cst.ClassDef) and one.name.value == cls]
    body = [one for one in suites.suite_of(found[0].body.body) if not suites.is_docstring(one)] if found else []
    init = body[0] if len(body) == 1 else None
    plain = (
        len(found) == 1 and not found[0].decorators and all(nodes.dotted(a.value) == "object" for a in found[0].bases)
    )
    if not plain or not isinstance(init, cst.FunctionDef) or init.name.value != "__init__":
        raise _Unclear
    params = init.params
    if isinstance(params.star_arg, cst.Param) or params.star_kwarg or params.kwonly_params or params.posonly_params:
        raise _Unclear
    names = [one.name.value for one in params.params[1:]]
    held: dict[str, Expr] = {}
    for line in suites.suite_of(init.body.body):
        small = suites.alone(line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        path = nodes.dotted(target) if target is not None else None
        if suites.is_docstring(line):
            continue
        if not isinstance(small, cst.Assign) or path is None or not path.startswith("self.") or path.count(".") > 1:
            raise _Unclear
        if nodes.dotted(small.value) not in names and nodes.literal(small.value) is ...:
            raise _Unclear
        held[path.removeprefix("self.")] = small.value
    return _Holder(found[0], init, held)


@dataclass
class _Opening:
    """The edits that open the objects of a class."""

    module: cst.Module
    holder: _Holder
    own: set[str] = field(default_factory=set)  # names for what objects alone have

    def instead(self) -> _Instead:
        """What is put in the place of what. Raises _Unclear."""
        cls = self.holder.node.name.value
        scopes: list[_Scope] = [self.module, *every(self.module, cst.FunctionDef)]
        made: _Instead = {self.holder.node: cst.RemoveFromParent()}
        variables: dict[str, dict[str, Expr]] = {}
        constructed = list[cst.Call]()
        for scope in scopes:
            for line in _lines(scope):
                small = suites.alone(line)
                value = small.value if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
                if isinstance(small, cst.Assign) and isinstance(value, cst.Call) and nodes.dotted(value.func) == cls:
                    target = small.targets[0].target
                    if (
                        not isinstance(target, cst.Name)
                        or target.value in variables
                        or not _bound_once(self.module, target.value)
                    ):
                        raise _Unclear
                    held = self.holder.held(value)
                    roots = {(nodes.dotted(each) or "").partition(".")[0] for each in held.values()}
                    if any(_times_bound(scope, root) > 1 for root in roots):
                        raise _Unclear
                    variables[target.value], own = self._named(held)
                    stands = suites.with_comments([*own], line)
                    made[line] = cst.FlattenSentinel(stands) if stands else cst.RemoveFromParent()
                    constructed.append(value)
        functions = [one for one in self.module.body if isinstance(one, cst.FunctionDef)]
        for function in functions:
            calls = [one for one in every(self.module, cst.Call) if nodes.dotted(one.func) == function.name.value]
            taken = self._opened_parameter(function, calls, variables, made)
            constructed += taken
        mentions = [
            one for one in every(self.module, cst.Name) if one.value == cls and one is not self.holder.node.name
        ]
        if len(mentions) != len(constructed):
            raise _Unclear
        self._open_variables(variables, made)
        return made

    def _named(self, held: Mapping[str, Expr]) -> tuple[dict[str, Expr], list[cst.SimpleStatementLine]]:
        """What an object holds, with names for what is made for it alone; and the statements that bind these."""
        found, lines = dict(held), list[cst.SimpleStatementLine]()
        taken = {one.value for one in every(self.module, cst.Name)} - held.keys()
        for attribute, value in held.items():
            if nodes.dotted(value) is None and nodes.literal(value) is ...:
                found[attribute] = nodes.name(usage.unused_name(attribute, taken | self.own))
                self.own.add(nodes.code(found[attribute]))
                lines.append(nodes.statement("{name} = {value}", name=found[attribute], value=value))
        return found, lines

    def _opened_parameter(
        self,
        function: cst.FunctionDef,
        calls: Sequence[cst.Call],
        variables: Mapping[str, Mapping[str, Expr]],
        made: _Instead,
    ) -> list[cst.Call]:
        """Opens the parameter of a function that is given such objects; the calls that make these."""
        cls, params = self.holder.node.name.value, [one.name.value for one in function.params.params]
        sites: list[tuple[cst.Call, dict[str, Expr], cst.Arg, dict[str, Expr]]] = []
        parameters = set[str]()
        constructed: list[cst.Call] = []
        for call in calls:
            given = dict(zip(argument_names(call.args, params), call.args, strict=True))
            for name, arg in given.items():
                new = arg.value if isinstance(arg.value, cst.Call) and nodes.dotted(arg.value.func) == cls else None
                if new is None and nodes.dotted(arg.value) not in variables:
                    continue
                held = self.holder.held(new) if new is not None else dict(variables[nodes.dotted(arg.value) or ""])
                constructed += [new] if new is not None else []
                parameters.add(name)
                sites.append((call, held, arg, {other: each.value for other, each in given.items() if other != name}))
        if not parameters:
            return []
        mentions = [one for one in every(self.module, cst.Name) if one.value == function.name.value]
        if len(parameters) > 1 or len(sites) != len(calls) or len(mentions) != len(calls) + 1:
            raise _Unclear
        (name,) = parameters
        parameter = next((one for one in function.params.params if one.name.value == name), None)
        reads = _reads(function, name)
        if parameter is None or parameter.default is not None:
            raise _Unclear
        known = {one.value for one in every(function, cst.Name)}
        new_names: dict[str, str] = {}
        for attribute in [one for one in self.holder.attributes if one in {read.attr.value for read in reads}]:
            path = self._of_another(attribute, [(held, given) for _, held, _, given in sites])
            text = path or (
                attribute if attribute not in known - {read.attr.value for read in reads} else f"{name}_{attribute}"
            )
            for read in (one for one in reads if one.attr.value == attribute):
                made[read] = nodes.expression(text)
            if not path:
                new_names[attribute] = text
        new_params = [cst.Param(nodes.name(text)) for text in new_names.values()]
        made[function.params] = function.params.with_changes(
            params=_spread(function.params.params, parameter, new_params)
        )
        for call, held, arg, _ in sites:
            values = [held[attribute] for attribute in new_names]
            named = arg.keyword is not None
            args = [
                cst.Arg(value.deep_clone(), keyword=nodes.name(new_names[attribute]) if named else None)
                for attribute, value in zip(new_names, values, strict=True)
            ]
            made[call] = call.with_changes(args=_spread(call.args, arg, args))
        return constructed

    def _of_another(self, attribute: str, sites: Sequence[tuple[Mapping[str, Expr], Mapping[str, Expr]]]) -> str:
        """What an attribute is in terms of the other arguments of each call: `model.generator`; "" where it is not."""
        found = set[str]()
        for held, given in sites:
            path = nodes.dotted(held[attribute]) or ""
            ways = [
                name + path.removeprefix(own)
                for name, value in given.items()
                if (own := nodes.dotted(value)) and own != "None" and (path == own or path.startswith(f"{own}."))
            ]
            found.add(ways[0] if ways else "")
        return found.pop() if len(found) == 1 else ""

    def _open_variables(self, variables: Mapping[str, Mapping[str, Expr]], made: _Instead) -> None:
        """What reads a variable reads what the object holds."""
        for name, held in variables.items():
            for read in _reads(self.module, name, bound=1, aside=made):
                if read.attr.value not in held:
                    raise _Unclear
                made[read] = held[read.attr.value].deep_clone()


def _lines(scope: _Scope) -> Iterator[cst.SimpleStatementLine]:
    """The plain statements of a scope."""
    closed = (cst.FunctionDef, cst.ClassDef)
    roots = scope.body if isinstance(scope, cst.Module) else [scope.body]
    for root in roots:
        if not isinstance(root, closed):
            yield from every(root, cst.SimpleStatementLine, closed=closed)


def _times_bound(scope: _Scope, name: str) -> int:
    """How often a scope binds a name."""
    if isinstance(scope, cst.Module):
        return usage.stores(scope.body).count(name)
    params = [one.name.value for one in (*scope.params.params, *scope.params.kwonly_params)]
    return [*params, *usage.stores(scope.body)].count(name)


def _bound_once(module: cst.Module, name: str) -> bool:
    """Whether a whole file binds a name once."""
    scopes: list[_Scope] = [module, *every(module, cst.FunctionDef)]
    return sum(_times_bound(scope, name) for scope in scopes) == 1


def _reads(
    scope: _Scope, name: str, bound: int = 0, aside: Mapping[cst.CSTNode, object] | None = None
) -> list[cst.Attribute]:
    """The attributes that are read of a name, which is used for nothing else. Raises _Unclear."""
    root = scope.body if isinstance(scope, cst.FunctionDef) else scope
    known = {id(one) for node in aside or {} if isinstance(node, cst.Call) for one in every(node, cst.Name)}
    mentions = [one for one in every(root, cst.Name) if one.value == name and id(one) not in known]
    found = [one for one in every(root, cst.Attribute) if isinstance(one.value, cst.Name) and one.value.value == name]
    targets = {id(each) for one in every(root, cst.AssignTarget) for each in every(one, cst.Attribute)}
    asides = [one for one in every(root, cst.Attribute) if one.attr.value == name]
    keywords = [one for one in every(root, cst.Arg) if one.keyword is not None and one.keyword.value == name]
    if len(mentions) != len(found) + bound + len(asides) + len(keywords) or any(id(one) in targets for one in found):
        raise _Unclear
    return found


def _spread(items: Sequence[_Item], one: _Item, others: Sequence[_Item]) -> list[_Item]:
    """A list of parameters or arguments with others in the place of one."""
    at = list(items).index(one)
    made = [*items[:at], *others, *items[at + 1 :]]
    return [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in made]
