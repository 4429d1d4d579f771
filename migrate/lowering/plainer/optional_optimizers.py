"""Functions that train where they are given an optimizer, and evaluate where they are not:

def loss_batch(model, xb, yb, opt=None):
    loss = F.cross_entropy(model(xb), yb)
    if opt is not None:
        loss.backward()
        opt.step()
    return loss.item()

One of them changes weights, and the other does not. The input is taken as if they were two functions, the second one
without the parameter: `loss_batch_without_opt(model, xb, yb)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Anew, Placing
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import functions_around, mentions, times_defined
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.none_tests import asked_for_none
from migrate.syntax.walking import every


@dataclass(frozen=True, eq=False)
class _Optional:
    """A function of a file that may be given an optimizer, the parameter for it, and the calls that give none."""

    file: str
    function: cst.FunctionDef
    parameter: cst.Param
    without: frozenset[cst.Call]

    @property
    def name(self) -> str:
        return self.function.name.value

    @property
    def other(self) -> str:
        """The name of the function that has no such parameter."""
        return f"{self.name}_without_{self.parameter.name.value}"


def with_optional_optimizers_apart(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with two functions for each of these; those that hand an optimizer on come first."""
    made = list(inputs)
    while found := next(_found(made), None):
        made = [_apart(file, found) for file in made]
    return made


# -- which functions they are -----------------------------------------------------------------------------------------


def _found(inputs: Sequence[Input]) -> Iterator[_Optional]:
    named = times_defined(one.source.module for one in inputs)
    for file in inputs:
        for function in suites.suite_of(file.source.module.body):
            if not isinstance(function, cst.FunctionDef) or named[function.name.value] > 1:
                continue
            for parameter in (*function.params.params, *function.params.kwonly_params):
                if _is_optional(function, parameter):
                    calls = _calls(inputs, function, parameter)
                    if calls is not None:
                        yield _Optional(file.scope, function, parameter, calls)


def _is_optional(function: cst.FunctionDef, parameter: cst.Param) -> bool:
    """Whether a function asks if it is given an optimizer, and does nothing with it where it is not."""
    name = parameter.name.value
    if parameter.default is None or not nodes.is_literal(parameter.default, None):
        return False
    used = any(_steps(call, name) for call in every(function.body, cst.Call))
    if name in usage.stores(function.body) or not used:
        return False
    without = _settled(function, name, False, {})
    asked = not without.deep_equals(function)
    given = {id(arg.value) for arg in every(without.body, cst.Arg)}
    return asked and all(id(one) in given for one in every(without.body, cst.Name) if one.value == name)


def _steps(call: cst.Call, name: str) -> bool:
    """Whether a call steps an optimizer, or hands it on."""
    return nodes.dotted(call.func) == f"{name}.step" or any(nodes.dotted(arg.value) == name for arg in call.args)


def _calls(inputs: Sequence[Input], function: cst.FunctionDef, parameter: cst.Param) -> frozenset[cst.Call] | None:
    """The calls that give a function no optimizer; None where that are none or all, or cannot be told."""
    params, name = function.params, function.name.value
    names = [one.name.value for one in params.params]
    without: list[cst.Call] = []
    times = 0
    for file in inputs:
        module = file.source.module
        calls = [one for one in every(module, cst.Call) if nodes.dotted(one.func) == name]
        if mentions(module, name, {function.name, *(one.func for one in calls)}):
            return None
        for call in calls:
            if any(arg.star for arg in call.args):
                return None
            found = dict(zip(argument_names(call.args, names), call.args, strict=True)).get(parameter.name.value)
            if found is None or nodes.is_literal(found.value, None):
                without.append(call)
            elif _may_be_none(found.value, module, inputs):
                return None
        times += len(calls)
    return frozenset(without) if 0 < len(without) < times else None


def _may_be_none(value: Expr, module: cst.Module, inputs: Sequence[Input]) -> bool:
    """Whether what a call gives may be None as the script runs: what is made there is not, nor a name that nothing
    binds to None, or to one thing or another, and no caller of the function around gives None."""
    path = nodes.dotted(value)
    if path is None:
        return not isinstance(value, cst.Call)
    for one in inputs:
        for target, bound in usage.bindings(one.source.module):
            if nodes.dotted(target) == path and (nodes.is_literal(bound, None) or not isinstance(bound, _SURE)):
                return True
    around = [one for one in functions_around(value, module) if isinstance(one, cst.FunctionDef)]
    return any(_is_given_none(path, function, inputs) for function in around)


_SURE = (cst.Call, cst.Name, cst.Attribute)


def _is_given_none(name: str, function: cst.FunctionDef, inputs: Sequence[Input]) -> bool:
    """Whether a function has a parameter of a name that may be None: by default, or since a call gives some None."""
    named = [one for one in every(function.params, cst.Param) if one.name.value == name]
    if not named or any(nodes.is_literal(one.default, None) for one in named):
        return bool(named)
    calls = [call for one in inputs for call in every(one.source.module, cst.Call)]
    of_it = [call for call in calls if (nodes.dotted(call.func) or "").rpartition(".")[2] == function.name.value]
    return any(nodes.is_literal(arg.value, None) for call in of_it for arg in call.args)


# -- the two functions ------------------------------------------------------------------------------------------------


def _apart(file: Input, found: _Optional) -> Input:
    """A file with both functions, if it has the one, and with its calls."""
    return file.visited(_Apart(found, dict(file.source.positions)))


class _Apart(Placing):
    """Puts both functions in the place of one, and has calls call the right one."""

    def __init__(self, found: _Optional, positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.found = found

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if original_node not in self.found.without:
            return updated_node
        return _without_argument(updated_node, self.found)

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        if isinstance(updated_node.names, cst.ImportStar):
            return updated_node
        taken = [nodes.code(one.name) for one in updated_node.names]
        if self.found.name not in taken or any(one.asname for one in updated_node.names):
            return updated_node
        names = [*taken, self.found.other]
        return updated_node.with_changes(names=[cst.ImportAlias(nodes.name(one)) for one in names])

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> Any:
        if original_node is not self.found.function:
            return updated_node
        return cst.FlattenSentinel([self._training(updated_node), self._evaluating(original_node, updated_node)])

    def _training(self, function: cst.FunctionDef) -> cst.FunctionDef:
        """The function that is given an optimizer, always."""
        name = self.found.parameter.name.value
        made = _settled(function, name, True, self.positions)
        plain = [_needed(one) if one.name.value == name else one for one in made.params.params]
        return made if _follows_default(plain) else made.with_changes(params=made.params.with_changes(params=plain))

    def _evaluating(self, original: cst.FunctionDef, function: cst.FunctionDef) -> cst.FunctionDef:
        """The one that has no such parameter."""
        name = self.found.parameter.name.value
        made = _settled(function, name, False, self.positions).visit(_Copied(name, self.positions))
        assert isinstance(made, cst.FunctionDef)
        params = made.params
        left, only = (
            nodes.separated([one for one in group if one.name.value != name])
            for group in (params.params, params.kwonly_params)
        )
        starred = only or isinstance(params.star_arg, cst.Param)
        star = params.star_arg if starred else cst.MaybeSentinel.DEFAULT
        made = made.with_changes(
            name=nodes.name(self.found.other),
            params=params.with_changes(params=left, kwonly_params=only, star_arg=star),
            leading_lines=[suites.BLANK, suites.BLANK],
        )
        self.place(made, original)
        return made


def _needed(parameter: cst.Param) -> cst.Param:
    return parameter.with_changes(default=None, equal=cst.MaybeSentinel.DEFAULT)


def _follows_default(parameters: Sequence[cst.Param]) -> bool:
    """Whether a parameter without a default comes after one with a default."""
    defaults = [one.default is not None for one in parameters]
    return defaults != sorted(defaults)


def _without_argument(call: cst.Call, found: _Optional) -> cst.Call:
    names = [one.name.value for one in found.function.params.params]
    keys = argument_names(call.args, names)
    args = [arg for arg, key in zip(call.args, keys, strict=True) if key != found.parameter.name.value]
    return nodes.with_some(call, args).with_changes(func=nodes.name(found.other))


class _Copied(Anew):
    """A second copy of statements: nodes of their own, and None for what is not given."""

    def __init__(self, name: str, positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.name = name

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        given = nodes.dotted(original_node.value) == self.name
        return updated_node.with_changes(value=nodes.name("None")) if given else updated_node


def _settled(
    function: cst.FunctionDef, name: str, given: bool, positions: dict[cst.CSTNode, CodeRange]
) -> cst.FunctionDef:
    """A function where it is known whether it is given an optimizer."""
    return cst.ensure_type(function.visit(_Settling(name, given, positions)), cst.FunctionDef)


class _Settling(Anew):
    """Decides what asks for a parameter."""

    def __init__(self, name: str, given: bool, positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.name, self.given = name, given
        self.elifs: set[cst.CSTNode] = set()

    def truth(self, test: Expr) -> bool | None:
        """Whether a test holds; None where more than the parameter decides."""
        asked = asked_for_none(test)
        if asked is not None and asked[0] == self.name:
            return self.given is not asked[1]
        told = nodes.literal(test)
        if nodes.dotted(test) == self.name:
            return self.given
        return told if isinstance(told, bool) else None

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> Expr:
        truth = self.truth(updated_node)
        return updated_node if truth is None else nodes.name(str(truth))

    def leave_UnaryOperation(self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation) -> Expr:
        truth = self.truth(updated_node.expression) if isinstance(updated_node.operator, cst.Not) else None
        return updated_node if truth is None else nodes.name(str(not truth))

    def leave_BooleanOperation(self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation) -> Expr:
        both = isinstance(updated_node.operator, cst.And)
        for one, other in ((updated_node.left, updated_node.right), (updated_node.right, updated_node.left)):
            truth = None if isinstance(one, cst.Name) and one.value == self.name else self.truth(one)
            if truth is not None and truth is not both:
                return nodes.name(str(truth))
            if truth is not None:
                return other
        return updated_node

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        truth = self.truth(updated_node.test)
        return updated_node if truth is None else updated_node.body if truth else updated_node.orelse

    def visit_If(self, node: cst.If) -> None:
        if isinstance(node.orelse, cst.If):
            self.elifs.add(node.orelse)

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> Any:
        truth = self.truth(updated_node.test)
        if truth is None:
            return updated_node
        if original_node in self.elifs:
            return cst.Else(updated_node.body) if truth else updated_node.orelse or cst.RemoveFromParent()
        holding, other = suites.sides(updated_node)
        left: list[Statement] = holding if truth else other
        if not left:
            return cst.RemoveFromParent()
        left[0] = left[0].with_changes(leading_lines=[*updated_node.leading_lines, *suites.comments(left[0])])
        return cst.FlattenSentinel(left)
