"""`device` and `dtype` as torch's own layers take them, which constructors hand on from one to the next and nobody
gives: `factory_kwargs = {"device": device, "dtype": dtype}`, `nn.Linear(4, 4, **factory_kwargs)`.

Both are None wherever the project makes a module, and JAX places arrays itself. The files are taken as if they had no
such arguments; whoever gives one to the output is told that there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.plainer.copied_input import Placing
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.mentions import times_defined
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_FACTORY = ("device", "dtype")


def with_plain_factories(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without such arguments."""
    made = [_Factory(function, name) for one in inputs for function, name in _makers(one.source.module)]
    factories = [one for one in made if "dtype" in one.handed]
    named: dict[str, list[_Factory]] = {}
    for one in factories:
        named.setdefault(one.name, []).append(one)
    calls = [call for one in inputs for call in every(one.source.module, cst.Call)] if factories else []
    if not factories or any(_may_give(call, named) for call in calls):
        return list(inputs)
    times = times_defined(one.source.module for one in inputs)
    whole = {name: set.intersection(*(one.handed for one in group)) for name, group in named.items()}
    taken = {name: handed for name, handed in whole.items() if times[name] == len(named[name])}
    return [_without(one, factories, taken) for one in inputs]


def _without(one: Input, factories: Sequence[_Factory], taken: Mapping[str, set[str]]) -> Input:
    return one.visited(_Plain(factories, taken, dict(one.source.positions)))


@dataclass
class _Factory:
    """A function, or the class whose constructor it is, under its name. `handed`: the parameters that it only hands on;
    `dicts`: the lines that make dicts of nothing else, by their names."""

    function: cst.FunctionDef
    name: str
    handed: set[str] = field(default_factory=set)
    dicts: dict[str, Statement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        params = self.function.params
        plain = [*params.params, *params.kwonly_params]
        given = {one.name.value for one in plain if one.default is not None and nodes.is_literal(one.default, None)}
        self.handed = given & set(_FACTORY)
        while self.handed:
            self.dicts = dict(_dicts(self.function, self.handed))
            spread = all(_only_spread(self.function, name, line) for name, line in self.dicts.items())
            left = {name for name in self.handed if self._reads(name)} if spread else set(self.handed)
            if not left:
                break
            self.handed -= left

    @property
    def places(self) -> int:
        """How many arguments come before the first of them."""
        names = [one.name.value for one in self.function.params.params if one.name.value != "self"]
        return min((names.index(name) for name in self.handed if name in names), default=len(names))

    def _reads(self, name: str) -> bool:
        """Whether a parameter is read but to be handed on under its own name."""
        aside = {id(part) for line in self.dicts.values() for part in every(line, cst.Name)}
        for node in every(self.function.body, (cst.Arg, cst.Attribute)):
            if isinstance(node, cst.Attribute):
                aside.add(id(node.attr))
            elif node.keyword is not None:
                aside |= {id(node.keyword), id(node.value)} if node.keyword.value == name else {id(node.keyword)}
        return any(one.value == name and id(one) not in aside for one in every(self.function.body, cst.Name))


def _makers(module: cst.Module) -> Iterator[tuple[cst.FunctionDef, str]]:
    """The functions and constructors of a file, with the names that they are called by."""
    for node in module.body:
        if isinstance(node, cst.FunctionDef) and any(_is_torchs(call) for call in every(node.body, cst.Call)):
            yield node, node.name.value
        elif isinstance(node, cst.ClassDef):
            for method in node.body.body if node.bases else ():
                if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                    yield method, node.name.value
                elif isinstance(method, cst.FunctionDef) and any(map(_is_torchs, every(method.body, cst.Call))):
                    yield method, method.name.value


def _is_torchs(call: cst.Call) -> bool:
    return (nodes.dotted(call.func) or "").startswith(("nn.", "torch.nn."))


def _dicts(function: cst.FunctionDef, handed: set[str]) -> Iterator[tuple[str, Statement]]:
    """`dd = {"device": device, "dtype": dtype}` and `dd = dict(device=device, dtype=dtype)`, by the names."""
    for line in suites.suite_of(function.body.body):
        small = suites.alone(line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if not isinstance(small, cst.Assign) or not isinstance(target, cst.Name):
            continue
        pairs = _pairs(small.value)
        if pairs and all(isinstance(value, cst.Name) and key == value.value and key in handed for key, value in pairs):
            yield target.value, line


def _pairs(value: Expr) -> list[tuple[object, Expr]]:
    if isinstance(value, cst.Dict):
        return [(nodes.literal(e.key), e.value) for e in value.elements if isinstance(e, cst.DictElement)]
    if isinstance(value, cst.Call) and nodes.dotted(value.func) == "dict":
        return [(arg.keyword.value if arg.keyword is not None else None, arg.value) for arg in value.args]
    return []


def _only_spread(function: cst.FunctionDef, name: str, line: Statement) -> bool:
    """Whether a dict is only handed on as `**dd`, and bound at one place."""
    spread = {id(arg.value) for arg in every(function.body, cst.Arg) if arg.star == "**"}
    made = {id(part) for part in every(line, cst.Name)}
    named = [one for one in every(function.body, cst.Name) if one.value == name and id(one) not in made]
    return all(id(one) in spread for one in named)


def _may_give(call: cst.Call, factories: Mapping[str, Sequence[_Factory]]) -> bool:
    """Whether a call of one of them gives it a type: another one than the caller's own, which is None."""
    group = factories.get((nodes.dotted(call.func) or "").rpartition(".")[2], ())
    given = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "dtype"]
    told = any(nodes.code(one) not in ("dtype", "None") for one in given)
    if not group:
        return told and nodes.code(call.func).endswith("__init__")
    plain = [arg for arg in call.args if arg.keyword is None and arg.star != "**"]
    return told or any(len(plain) > one.places for one in group) or any(arg.star == "*" for arg in plain)


class _Plain(Placing):
    """Leaves such parameters and arguments out. `taken`: those that every definition of a name has."""

    def __init__(
        self,
        factories: Sequence[_Factory],
        taken: Mapping[str, set[str]],
        positions: dict[cst.CSTNode, CodeRange],
    ) -> None:
        super().__init__(positions)
        self.factories, self.taken = {one.function: one for one in factories}, taken
        self.lines = {line for one in factories for line in one.dicts.values()}
        self.inside: list[_Factory] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.inside += [self.factories[node]] if node in self.factories else []

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if original_node not in self.factories:
            return updated_node
        handed, params = self.inside.pop().handed, updated_node.params
        plain, named = _left(params.params, handed), _left(params.kwonly_params, handed)
        bare = not named and isinstance(params.star_arg, cst.ParamStar)
        star = cst.MaybeSentinel.DEFAULT if bare else params.star_arg
        if bare and plain:
            plain[-1] = plain[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        made = params.with_changes(params=plain, kwonly_params=named, star_arg=star)
        return updated_node.with_changes(params=made)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        return cst.RemoveFromParent() if original_node in self.lines else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        called = self.taken.get((nodes.dotted(original_node.func) or "").rpartition(".")[2], set())
        gone = [arg for arg in original_node.args if self._goes(arg, called)]
        if not gone:
            return updated_node
        kept = [new for old, new in zip(original_node.args, updated_node.args, strict=True) if old not in gone]
        return updated_node.with_changes(args=nodes.ending_as(kept, updated_node.args[-1]))

    def _goes(self, arg: cst.Arg, called: set[str]) -> bool:
        """Whether an argument is given to a parameter that goes, or hands on one, or all."""
        if arg.star == "**":
            return any(nodes.dotted(arg.value) in one.dicts for one in self.inside)
        name = arg.keyword.value if arg.keyword is not None else ""
        return name in called or any(name in one.handed and nodes.dotted(arg.value) == name for one in self.inside)


def _left(params: Sequence[cst.Param], handed: set[str]) -> list[cst.Param]:
    kept = [one for one in params if one.name.value not in handed]
    return nodes.ending_as(kept, params[-1]) if kept else kept
