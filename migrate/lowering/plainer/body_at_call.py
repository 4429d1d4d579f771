"""The body of a function as it would stand in the place of one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.settled_branches import lists_parameters, settled, without_result
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

Block = cst.FunctionDef | cst.Module
INNER = (cst.FunctionDef, cst.ClassDef)


@dataclass(frozen=True)
class Site:
    """A call in a statement of a file, and what is around it: a function or method, or the file itself."""

    line: cst.SimpleStatementLine
    call: cst.Call
    around: Block


def at_call(definition: cst.FunctionDef, site: Site, method: bool) -> list[Statement] | None:
    """What stands for a statement that calls a function; None where it would not mean the same."""
    given = given_to(definition, site.call, method)
    body = [one for one in suites.suite_of(definition.body.body) if not suites.is_docstring(one)]
    closed = next(every(definition.body, (*INNER, cst.Yield, cst.Global, cst.Nonlocal, cst.Lambda)), None)
    if given is None or definition.decorators or closed is not None or returns_early(body) or not is_first(site):
        return None
    body, result = result_apart(body)
    whole = suites.alone(site.line)
    alone = isinstance(whole, cst.Expr) and whole.value is site.call
    if result is None and not alone:
        return None
    names = _names_for(definition, site, set(given))
    if names is None:
        return None
    body = settled(body, given)
    made = _filled(without_result(body, result) if alone else body, given, names)
    if alone:
        return suites.with_comments(made.statements, site.line)
    assert result is not None
    value = made.fill(result)
    held = any(one.value is site.call for one in every(site.line, (cst.Assign, cst.AugAssign, cst.Return, cst.Arg)))
    line = nodes.visited(site.line, Instead(site.call, value if held else nodes.parenthesized(value)))
    return suites.with_comments([*made.statements, line.with_changes(leading_lines=[])], site.line)


def returns_early(body: Sequence[Statement]) -> bool:
    """Whether statements return anywhere but in the last of them."""
    ends = [end for one in body for end in usage.returns(one)]
    return len(ends) > 1 or (bool(ends) and suites.alone(body[-1]) is not ends[0])


def result_apart(body: Sequence[Statement]) -> tuple[list[Statement], Expr | None]:
    """Statements without a `return` at their end, and what that returns."""
    last = suites.alone(body[-1]) if body else None
    return (list(body[:-1]), last.value) if isinstance(last, cst.Return) else (list(body), None)


def given_to(definition: cst.FunctionDef, call: cst.Call, method: bool) -> dict[str, Expr] | None:
    """What the parameters of a function stand for in a call; None where that is not written out."""
    params = definition.params
    if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.posonly_params:
        return None
    if any(arg.star for arg in call.args):
        return None
    every_one = [*params.params, *params.kwonly_params]
    given = {one.name.value: one.default for one in every_one if one.default is not None}
    names = [one.name.value for one in params.params]
    if method:
        owner = (
            call.func.value if isinstance(call.func, cst.Attribute) and definition.name.value != "__call__" else None
        )
        owner = owner if owner is not None else call.func
        if nodes.dotted(owner) is None or not names:
            return None
        given[names.pop(0)] = owner
    for arg, name in zip(call.args, argument_names(call.args, names), strict=True):
        given[name] = arg.value
    return given if given.keys() == {one.name.value for one in every_one} else None


def is_first(site: Site) -> bool:
    """Whether a call is surely evaluated, and before whatever else its statement calls: those calls only take it."""
    path = _path_to(site.line, site.call)
    others = [call for call in usage.calls(site.line) if call not in path]
    within = usage.calls(site.call)
    return is_sure(site.line, site.call) and all(call in within for call in others)


def is_sure(line: cst.SimpleStatementLine, node: Expr) -> bool:
    """Whether a statement has a call in it, and surely evaluates it once."""
    unsure = (cst.Lambda, cst.IfExp, cst.BooleanOperation, cst.BaseComp, cst.Comparison, cst.Assert)
    path = _path_to(line, node)
    return bool(path) and not any(isinstance(one, unsure) for one in path)


def _path_to(line: cst.SimpleStatementLine, node: Expr) -> list[cst.CSTNode]:
    """The nodes of a statement that have a call in them, itself among them."""
    return [one for one in every(line, cst.CSTNode) if any(each is node for each in every(one, cst.Call))]


def free_names(definition: cst.FunctionDef | cst.Lambda) -> set[str]:
    """The names that a function has from its file, or from Python."""
    params = definition.params
    given = {one.name.value for one in (*params.params, *params.kwonly_params, *params.posonly_params)}
    return set(usage.loads(definition.body)) - set(usage.stores(definition.body)) - given


def _names_for(definition: cst.FunctionDef, site: Site, params: set[str]) -> dict[str, str] | None:
    """The names that what a function binds has around a call; None where its other names mean something else there."""
    own = set(usage.stores(definition.body))
    used = used_around(site.around, site.line)
    free = free_names(definition)
    private = [name for name in usage.attributes(definition.body) if name.startswith("__") and not name.endswith("__")]
    bound = set() if isinstance(site.around, cst.Module) else used.bound
    if free & bound or "super" in free or private:
        return None
    small = suites.alone(site.line)
    targets = small.targets if isinstance(small, cst.Assign) else []
    taking = {one.target.value for one in targets if isinstance(one.target, cst.Name)} - set(usage.loads(site.line))
    taken = (used.names - taking) | free
    names = dict[str, str]()
    for name in sorted(own):
        names[name] = usage.unused_name(name, taken)
        taken.add(names[name])
    return names


@dataclass(frozen=True)
class Used:
    names: set[str]
    bound: set[str]


def used_around(around: Block, line: Statement) -> Used:
    """The names of a function or a file, and those that it binds."""
    if isinstance(around, cst.Module):
        names = {one.value for root in around.body if not isinstance(root, INNER) for one in every(root, cst.Name)}
        names |= {one.name.value for one in around.body if isinstance(one, INNER)}
        return Used(names, set(usage.stores(around.body)))
    params = {one.name.value for one in (*around.params.params, *around.params.kwonly_params)}
    names = params | {one.value for one in every(around.body, cst.Name)}
    return Used(names, params | set(usage.stores(around.body)))


@dataclass
class _Filling:
    """A body with expressions in the place of parameters, until it binds those."""

    names: Mapping[str, str]
    values: dict[str, Expr]
    statements: list[Statement]

    def fill(self, node: Expr) -> Expr:
        """An expression in terms of what is around the call."""
        return nodes.substituted(node, self.values).deep_clone()


def _filled(body: Sequence[Statement], given: Mapping[str, Expr], names: Mapping[str, str]) -> _Filling:
    own = {name: nodes.name(renamed) for name, renamed in names.items()}
    made = _Filling(names, {**own, **given}, [])
    for name, value in given.items():
        listing = lists_parameters(value) and _times_read(body, name) <= 1
        if not is_plain(value) and not listing and not _is_read_first(body, name):
            made.values[name] = own.get(name) or nodes.name(name)
            made.statements.append(nodes.statement("{n} = {v}", n=made.values[name], v=value))
    for statement in body:
        bound = set(usage.stores(statement)) & given.keys()
        small = suites.alone(statement)
        if isinstance(small, cst.Assign) and bound and all(isinstance(one.target, cst.Name) for one in small.targets):
            line = cst.ensure_type(statement, cst.SimpleStatementLine)
            value = made.fill(small.value)
            targets = [nodes.target(own[cst.ensure_type(one.target, cst.Name).value]) for one in small.targets]
            made.statements.append(line.with_changes(body=[small.with_changes(targets=targets, value=value)]))
        else:
            for name in sorted(bound):
                if made.values[name] is not own[name]:
                    made.statements.append(nodes.statement("{n} = {v}", n=own[name], v=made.values[name]))
                    made.values[name] = own[name]
            made.statements.append(nodes.substituted(statement, made.values).deep_clone())
        made.values |= {name: own[name] for name in bound}
    return made


def is_plain(node: Expr) -> bool:
    """Whether an expression may stand in several places."""
    return nodes.dotted(node) is not None or nodes.literal(node) is not ...


def _times_read(body: Sequence[Statement], name: str) -> int:
    """How often a body may read a name on one way through it: in a loop, more than once."""
    times = 0
    for statement in body:
        if isinstance(statement, cst.If):
            own = usage.loads(statement.test).count(name)
            times += own + max(_times_read(side, name) for side in suites.sides(statement))
        else:
            repeats = 1 if isinstance(statement, cst.SimpleStatementLine) else 2
            times += usage.loads(statement).count(name) * repeats
    return times


def _is_read_first(body: Sequence[Statement], name: str) -> bool:
    """Whether a body reads a name once, and calls nothing before but what clears gradients."""
    if sum(usage.loads(one).count(name) for one in body) != 1:
        return False
    for statement in body:
        if name in usage.loads(statement):
            return isinstance(statement, cst.SimpleStatementLine)
        if any(not nodes.code(call.func).endswith(".zero_grad") for call in usage.calls(statement)):
            return False
    return False


class Instead(cst.CSTTransformer):
    """Puts an expression in the place of a call."""

    def __init__(self, call: cst.Call, value: Expr) -> None:
        super().__init__()
        self.call, self.value = call, value

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        return self.value if original_node is self.call else updated_node
