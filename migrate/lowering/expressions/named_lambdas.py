"""A lambda that has a name, `mse = lambda a, b: ((a - b) ** 2).mean()`, is a function: what it is called with tells
what its parameters are. It is a lambda in the output as well where all that it does is to return something.

One that hands on whatever it is given, `reshape = lambda x, *args: x.reshape(*args)`, is written out in its calls.
"""

from __future__ import annotations

import builtins

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Shorthand
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class NamedLambdas(Scope):
    """Functions that are written as lambdas."""

    def named_function(self, statement: Statement) -> cst.FunctionDef | None:
        """The function that an assignment of a lambda to a name makes; None of other statements."""
        written = _written(statement)
        if written is None or self.context == "setup":
            return None
        line, name, made = written
        body = self.own_body
        if not _is_plain(made.params) or usage.stores(body).count(name) > 1 or self.may_build(made.body):
            return None
        if statement not in self.unit.plain:
            function = suites.function(name, [], [nodes.statement("return {made}", made=made.body)])
            function = function.with_changes(params=made.params, leading_lines=statement.leading_lines)
            self.unit.plain[statement] = function
            self.unit.stands_for(function, statement)
            self.unit.lambdas[function] = line
        return cst.ensure_type(self.unit.plain[statement], cst.FunctionDef)

    def may_build(self, node: Expr) -> bool:
        """Whether an expression is a call of what no statement has bound yet: it may make layers, and builders are
        functions in the output."""
        root = nodes.root(node.func) if isinstance(node, cst.Call) else None
        unknown = isinstance(root, cst.Name) and self.env.lookup(root.value) is None
        return isinstance(root, cst.Name) and unknown and not hasattr(builtins, root.value)

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

    def named_shorthand(self, small: cst.Assign) -> bool:
        """Whether an assignment gives a name to a lambda that calls a method: nothing is left of it."""
        target = small.targets[0].target
        if not isinstance(small.value, cst.Lambda) or len(small.targets) > 1 or not isinstance(target, cst.Name):
            return False
        once = len(self.blocks) == 1 and usage.stores(self.unit.source.module).count(target.value) == 1
        if self.context != "module" or not once or not _hands_on(small.value):
            return False
        self.env.kinds[target.value] = Shorthand(nodes.code(small.value))
        return True

    def as_method_call(self, node: cst.Call, kind: Shorthand) -> Value:
        """A call of a shorthand: the call of the method."""
        if node not in self.unit.spelled_out:
            written = cst.ensure_type(nodes.expression(kind.written), cst.Lambda)
            own = [parameter.name.value for parameter in written.params.params]
            given, rest = node.args[: len(own)], node.args[len(own) :]
            if len(given) < len(own) or any(arg.star or arg.keyword for arg in given):
                raise Unsupported("MIG302", f"{nodes.code(node)}: arguments that cannot be followed")
            body = cst.ensure_type(written.body, cst.Call)
            fixed = [arg for arg in body.args if not arg.star]
            values = {name: nodes.parenthesized(arg.value) for name, arg in zip(own, given, strict=True)}
            called = nodes.substituted(body.with_changes(args=fixed), values)
            made = called.with_changes(args=[*called.args, *rest])
            places = self.unit.source.positions
            if node in places:  # an example is of no place
                for part in every(made, cst.CSTNode):
                    places.setdefault(part, places[node])
            self.unit.spelled_out[node] = made
        return self.expr(self.unit.spelled_out[node])


def _hands_on(written: cst.Lambda) -> bool:
    """Whether a lambda calls a method, and hands all that it is given on to that: once, and the rest as it comes."""
    params, body = written.params, written.body
    if not isinstance(body, cst.Call) or not isinstance(body.func, cst.Attribute):
        return False
    own = [parameter.name.value for parameter in params.params if parameter.default is None]
    stars = [star.name.value for star in (params.star_arg, params.star_kwarg) if isinstance(star, cst.Param)]
    rest = [nodes.dotted(arg.value) for arg in body.args if arg.star]
    plain = len(own) == len(params.params) and not params.kwonly_params and not params.posonly_params
    return plain and bool(stars) and rest == stars and sorted(usage.loads(body)) == sorted([*own, *stars])


def _written(statement: Statement) -> tuple[cst.SimpleStatementLine, str, cst.Lambda] | None:
    """The line, the name and the lambda of `name = lambda ...: ...`; None of other statements."""
    name, made = suites.name_and_value(statement)
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(made, cst.Lambda):
        return None
    return statement, name, made


def _is_plain(params: cst.Parameters) -> bool:
    """Whether all parameters have names and can be passed by position."""
    return not (params.kwonly_params or params.posonly_params or params.star_kwarg) and isinstance(
        params.star_arg, cst.MaybeSentinel
    )


def _returned(statement: Statement) -> Expr | None:
    """What a `return` gives; None of other statements."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return small.value if isinstance(small, cst.Return) else None
