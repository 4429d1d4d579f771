"""A lambda that has a name, `mse = lambda a, b: ((a - b) ** 2).mean()`, is a function: what it is called with tells
what its parameters are. It is a lambda in the output as well where all that it does is to return something."""

from __future__ import annotations

import libcst as cst

from migrate import nodes, suites, usage
from migrate.lowering.scope import Scope
from migrate.nodes import Expr, Statement


class NamedLambdas(Scope):
    """Functions that are written as lambdas."""

    def named_function(self, statement: Statement) -> cst.FunctionDef | None:
        """The function that an assignment of a lambda to a name makes; None of other statements."""
        written = _written(statement)
        if written is None or self.context == "setup":
            return None
        line, name, made = written
        body = self.unit.source.module if self.facts is None else self.facts.node.body
        if not _is_plain(made.params) or usage.stores(body).count(name) > 1:
            return None
        if statement not in self.unit.plain:
            function = suites.function(name, [], [nodes.statement("return {made}", made=made.body)])
            function = function.with_changes(params=made.params, leading_lines=statement.leading_lines)
            self.unit.plain[statement] = function
            self.unit.stands_for(function, statement)
            self.unit.lambdas[function] = line
        return cst.ensure_type(self.unit.plain[statement], cst.FunctionDef)

    def lambda_again(self, node: cst.FunctionDef, made: list[Statement]) -> list[Statement]:
        """What became of a function, as a lambda where it was written as one and does nothing but return something."""
        line = self.unit.lambdas.get(node)
        if line is None or not made:
            return made
        function = cst.ensure_type(made[0], cst.FunctionDef)
        body = suites.suite_of(function.body.body)
        returned = _returned(body[0])
        if len(body) > 1 or returned is None:
            return [function.with_changes(leading_lines=[suites.BLANK, *suites.comments(function)])]
        value = nodes.parenthesized(returned) if isinstance(returned, cst.Tuple) else returned
        small = cst.ensure_type(line.body[0], cst.Assign)
        again = cst.ensure_type(small.value, cst.Lambda).with_changes(params=function.params, body=value)
        return [line.with_changes(body=[small.with_changes(value=again)])]


def _written(statement: Statement) -> tuple[cst.SimpleStatementLine, str, cst.Lambda] | None:
    """The line, the name and the lambda of `name = lambda ...: ...`; None of other statements."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
        return None
    small = statement.body[0]
    if not isinstance(small, cst.Assign) or len(small.targets) > 1 or not isinstance(small.value, cst.Lambda):
        return None
    target = small.targets[0].target
    return (statement, target.value, small.value) if isinstance(target, cst.Name) else None


def _is_plain(params: cst.Parameters) -> bool:
    """Whether all parameters have names and can be passed by position."""
    return not (params.kwonly_params or params.posonly_params or params.star_kwarg) and isinstance(
        params.star_arg, cst.MaybeSentinel
    )


def _returned(statement: Statement) -> Expr | None:
    """What a `return` gives; None of other statements."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return small.value if isinstance(small, cst.Return) else None
