"""Functions that give an argument, or else what another one makes: `default(noise, lambda: torch.randn_like(x))`.

What a lambda draws has no place for its key; such a call is the choice that it stands for.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Function
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr

_TESTS = ("callable", "isfunction", "inspect.isfunction")


class OrElse(Scope):
    """Calls with a lambda for what is not given."""

    def or_else(self, node: cst.Call, kind: Function) -> Expr | None:
        """`noise if noise is not None else torch.randn_like(x)`; None of other calls."""
        match node.args:
            case [
                cst.Arg(value=cst.Name() | cst.Attribute() as given, keyword=None, star=""),
                cst.Arg(value=cst.Lambda(params=params, body=made), keyword=None, star=""),
            ] if params.deep_equals(cst.Parameters()) and self._chooses(kind):
                if node not in self.unit.choices:
                    choice = nodes.expression("{x} if {x} is not None else {y}", x=given, y=made)
                    self.unit.choices[node] = choice
                return self.unit.choices[node]
        return None

    def _chooses(self, kind: Function) -> bool:
        """Whether a function gives its first argument, where that is not None, else what the second one makes."""
        function = self.script.functions[kind.name].node
        params = function.params
        if len(params.params) != 2 or params.kwonly_params or params.star_kwarg or function.decorators:
            return False
        value, default = (parameter.name.value for parameter in params.params)
        body = [one for one in suites.suite_of(function.body.body) if not suites.is_docstring(one)]
        match body:
            case [
                cst.If(test=test, body=then, orelse=None),
                cst.SimpleStatementLine(body=[cst.Return(value=otherwise)]),
            ]:
                match suites.suite_of(then.body):
                    case [cst.SimpleStatementLine(body=[cst.Return(value=cst.Name(value=first))])]:
                        pass
                    case _:
                        return False
            case [
                cst.SimpleStatementLine(
                    body=[cst.Return(value=cst.IfExp(test=test, body=cst.Name(value=first), orelse=otherwise))]
                )
            ]:
                pass
            case _:
                return False
        return first == value and self._is_there(kind.name, test, value) and _made(otherwise, default)

    def _is_there(self, function: str, test: Expr, name: str) -> bool:
        """Whether a test in a function holds where a name is not None: it says so, or asks another function."""
        if nodes.code(test) == f"{name} is not None":
            return True
        if not isinstance(test, cst.Call) or [nodes.dotted(arg.value) for arg in test.args] != [name]:
            return False
        asked = self.in_file_of(function).kind_of(test.func)
        if not isinstance(asked, Function):
            return False
        facts = self.script.functions[asked.name]
        match suites.suite_of(facts.node.body.body):
            case [cst.SimpleStatementLine(body=[cst.Return(value=cst.Comparison() as said)])]:
                return [nodes.code(said)] == [f"{each} is not None" for each in facts.parameter_names]
        return False


def _made(node: Expr | None, default: str) -> bool:
    """Whether an expression is what a function makes: `d() if callable(d) else d`, `d()`."""
    match node:
        case cst.IfExp(test=cst.Call(func=test, args=[cst.Arg(value=cst.Name(value=asked))]), body=body):
            orelse = node.orelse
            same = asked == default and nodes.dotted(orelse) == default
            return same and nodes.dotted(test) in _TESTS and _made(body, default)
        case cst.Call(func=cst.Name(value=called), args=[]):
            return called == default
    return False
