"""Methods and functions that a step of an optimizer calls to change what they are given, written out in the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.optimizer_source.starts import refused
from migrate.syntax import nodes, suites, usage
from migrate.syntax.changing import changed_in_place
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.suites import first_line
from migrate.syntax.walking import every

_CONSTANTS = ("None", "True", "False")
_MOST = 50  # calls written out, beyond which a method calls itself


def changes_parameters(node: cst.FunctionDef) -> bool:
    """Whether a function changes in place what it is given."""
    names = {parameter.name.value for parameter in node.params.params}
    changed = {*changed_in_place(node.body), *(nodes.dotted(each.target) for each in every(node.body, cst.AugAssign))}
    return bool(names & {path.partition(".")[0] for path in changed if path})


class Inlining:
    """The body of a step with the calls of `called` written out: functions by the name that calls them, methods as
    `self.name`."""

    def __init__(self, name: str, called: Mapping[str, cst.FunctionDef], step: cst.FunctionDef) -> None:
        self.name, self.called = name, called
        self.taken = {*usage.stores(step.body), *usage.loads(step.body)}
        self.following: list[Sequence[Statement]] = []  # what runs after the statement at hand, innermost last
        self.count = 0

    def of(self, node: cst.FunctionDef) -> cst.FunctionDef:
        """A function with everything written out."""
        body = self._suite(suites.suite_of(node.body.body))
        return node.with_changes(body=suites.block_of(node.body, body))

    def _suite(self, body: Sequence[Statement]) -> list[Statement]:
        made: list[Statement] = []
        for number, each in enumerate(body):
            self.following.append(body[number + 1 :])
            made += self._statement(each)
            self.following.pop()
        return made

    def _statement(self, statement: Statement) -> list[Statement]:
        if isinstance(statement, cst.SimpleStatementLine):
            return self._line(statement)
        if isinstance(statement, cst.If | cst.For | cst.With):
            again = isinstance(statement, cst.For) and not _over_parameters(statement)
            self.following.append([statement] if again else [])
            inner = self._suite(suites.suite_of(statement.body.body))
            self.following.pop()
            made = statement.with_changes(body=suites.block_of(statement.body, inner))
            orelse = None if isinstance(statement, cst.With) else statement.orelse
            if isinstance(orelse, cst.Else):
                inner = self._suite(suites.suite_of(orelse.body.body))
                made = made.with_changes(orelse=orelse.with_changes(body=suites.block_of(orelse.body, inner)))
            elif isinstance(orelse, cst.If):
                (other,) = self._statement(orelse)
                made = made.with_changes(orelse=other)
            return [made]
        return [statement]

    def _line(self, line: cst.SimpleStatementLine) -> list[Statement]:
        small = line.body[0]
        value = small.value if isinstance(small, cst.Expr | cst.Assign) else None
        function = self._function(value)
        if function is None or not isinstance(value, cst.Call):
            return self._parts_first(line)
        self.count += 1
        if self.count > _MOST:
            raise refused(self.name, f"{nodes.code(value.func)} calls itself")
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if isinstance(small, cst.Assign) and target is None:
            raise refused(self.name, f"its step has several names for {nodes.code(value)}")
        made = self._suite(self._written_out(function, value, target))
        return suites.with_comments(made, line) if made else []

    def _parts_first(self, line: cst.SimpleStatementLine) -> list[Statement]:
        """A line with calls inside of expressions: those of methods that only compute have a line before it."""
        inside = [call for call in usage.calls(line) if self._function(call) is not None]
        if not inside:
            return [line]
        call, function = inside[-1], self._function(inside[-1])
        assert function is not None
        calls_more = any((nodes.dotted(each.func) or "").startswith("self.") for each in usage.calls(function.body))
        if changes_parameters(function) or calls_more or self.called.get(nodes.dotted(call.func) or "") is None:
            raise refused(self.name, f"its step calls what changes the state inside of {first_line(line)}")
        name = usage.unused_name(function.name.value.strip("_").removeprefix("get_"), self.taken)
        self.taken.add(name)
        first = cst.SimpleStatementLine([cst.Assign([nodes.target(nodes.name(name))], call)])
        rest = line.deep_replace(call, nodes.name(name))
        assert isinstance(rest, cst.SimpleStatementLine)
        return [
            *self._line(first.with_changes(leading_lines=line.leading_lines)),
            *self._line(rest.with_changes(leading_lines=[])),
        ]

    def _function(self, call: Expr | None) -> cst.FunctionDef | None:
        return self.called.get(nodes.dotted(call.func) or "") if isinstance(call, cst.Call) else None

    def _written_out(self, function: cst.FunctionDef, call: cst.Call, target: Expr | None) -> list[Statement]:
        body = suites.suite_of(function.body.body)
        body = [each for each in body if not suites.is_docstring(each) and not suites.is_pass(each)]
        given = self._given(function, call)
        rebound = set(usage.stores(body)) - {
            each.target.value for each in every(function.body, cst.AugAssign) if isinstance(each.target, cst.Name)
        }
        first: list[Statement] = []
        names: dict[str, Expr] = {}
        targets = set(usage.target_names(target)) if target is not None else set()
        for name, value in given.items():
            if _is_path(value) and (name not in rebound or self._given_up(value)):
                names[name] = value
            else:
                own = nodes.name(usage.unused_name(name, self.taken))
                names[name] = own
                self.taken.add(own.value)
                first.append(nodes.statement("{own} = {value}", own=own, value=value))
        for name in sorted(rebound - set(given)):
            if name in self.taken - targets:
                names[name] = nodes.name(usage.unused_name(name, self.taken))
            self.taken.add(nodes.code(names.get(name, nodes.name(name))))
        body = [nodes.visited(each, _Substituted(names)) for each in body]
        return [*first, *self._returning(body, target)]

    def _given_up(self, value: Expr) -> bool:
        """Whether a value is a name that nothing reads after the call."""
        if not isinstance(value, cst.Name) or value.value in _CONSTANTS:
            return False
        return not any(value.value in usage.loads(each) for each in self.following)

    def _given(self, function: cst.FunctionDef, call: cst.Call) -> dict[str, Expr]:
        """The arguments by the names of the parameters."""
        params = function.params
        if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None:
            raise refused(self.name, f"{function.name.value} takes *args or **kwargs")
        static = any(nodes.dotted(each.decorator) == "staticmethod" for each in function.decorators)
        bound = (nodes.dotted(call.func) or "").startswith("self.") and not static
        names = [each.name.value for each in params.params[1 if bound else 0 :]]
        every_one = [*params.params[1 if bound else 0 :], *params.kwonly_params]
        found: dict[str, Expr] = {}
        for number, arg in enumerate(call.args):
            if arg.star or (arg.keyword is None and number >= len(names)):
                raise refused(self.name, f"calls {nodes.code(call)}")
            found[arg.keyword.value if arg.keyword is not None else names[number]] = arg.value
        for each in every_one:
            if each.name.value not in found and each.default is not None:
                found[each.name.value] = each.default
        if set(found) != {each.name.value for each in every_one}:
            raise refused(self.name, f"calls {nodes.code(call)}, which does not fit {function.name.value}")
        return found

    def _returning(self, body: Sequence[Statement], target: Expr | None) -> list[Statement]:
        """The body with `target = x` in the place of `return x`."""
        made: list[Statement] = []
        for number, each in enumerate(body):
            small = each.body[0] if isinstance(each, cst.SimpleStatementLine) else None
            if isinstance(small, cst.Return):
                return [*made, *suites.with_comments(self._result(small.value, target), each)]
            if not usage.returns(each):
                made.append(each)
                continue
            rest = list(body[number + 1 :])
            if not isinstance(each, cst.If) or not suites.exits(suites.suite_of(each.body.body)):
                raise refused(self.name, f"its step returns in the middle of {first_line(each)}")
            other = [*self._otherwise(each), *rest]
            inner = self._returning(suites.suite_of(each.body.body), target)
            left = self._returning(other, target)
            orelse = cst.Else(suites.block(left)) if left else None
            return [*made, each.with_changes(body=suites.block(inner), orelse=orelse)]
        return made

    @staticmethod
    def _otherwise(node: cst.If) -> list[Statement]:
        if isinstance(node.orelse, cst.Else):
            return suites.suite_of(node.orelse.body.body)
        return [node.orelse] if node.orelse is not None else []

    def _result(self, value: Expr | None, target: Expr | None) -> list[Statement]:
        if target is None:
            return []
        if value is None:
            raise Unsupported("MIG201", f"{self.name} inherits from Optimizer, and assigns what returns nothing")
        pairs = usage.pairs(target, value)
        later = [set(usage.loads(other)) for _, other in pairs[1:]]
        if any(set(usage.target_names(one)) & loads for (one, _), loads in zip(pairs, later, strict=False)):
            pairs = [(target, value)]
        return [
            cst.SimpleStatementLine([cst.Assign([nodes.target(one)], other)])
            for one, other in pairs
            if not one.deep_equals(other)
        ]


class _Substituted(cst.CSTTransformer):
    """Names replaced by expressions, where they are bound as well; attribute and keyword names stay."""

    def __init__(self, names: Mapping[str, Expr]) -> None:
        super().__init__()
        self.names = names

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        value = nodes.parenthesized(updated_node.value)
        return updated_node.with_changes(value=value, attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        return self.names.get(original_node.value, updated_node)

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        """A choice by what the call says."""
        told = nodes.literal(updated_node.test)
        return updated_node if not isinstance(told, bool) else updated_node.body if told else updated_node.orelse


def _is_path(node: Expr) -> bool:
    """Whether an expression names something, or is a literal number or constant: reading it again gives the same."""
    if nodes.literal(node) is not ...:
        return isinstance(node, cst.BaseNumber | cst.Name | cst.SimpleString)
    return isinstance(node, cst.Name | cst.Attribute | cst.Subscript) and not usage.calls(node)


def _over_parameters(loop: cst.For) -> bool:
    """Whether a loop is over groups or their parameters, each of which has names of its own."""
    return any(each in nodes.code(loop.iter) for each in ("param_groups", '["params"]', "['params']"))
