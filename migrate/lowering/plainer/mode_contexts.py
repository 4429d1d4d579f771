"""Contexts of the script's own that switch the mode of a model, `with evaluating(model):`, by a generator function, or
by a class with `__enter__` and `__exit__`: their statements, around those that they enclose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.plainer.body_at_call import given_to, is_plain, result_apart, returns_early
from migrate.lowering.plainer.enclosing import enclosing
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name
from migrate.syntax.modes import definitions, switches_modes
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_GENERATOR = "contextlib.contextmanager"
_INNER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


@dataclass(frozen=True)
class Context:
    """A context of the script's own: what is given to it, its statements, and the one of them that stands for what it
    encloses; `result` is what that has by `as`."""

    head: cst.FunctionDef  # whose parameters it takes
    method: bool
    body: list[Statement]
    hole: Statement
    result: Expr | None


def contexts_of(module: cst.Module, imported: Mapping[str, str]) -> Iterator[tuple[str, Context]]:
    """The contexts of a file that switch modes, by their names."""
    for definition in definitions(module):
        if switches_modes(definition):
            one = isinstance(definition, cst.FunctionDef)
            made = _generator(definition, imported) if one else _entered(definition)
            if made is not None:
                yield definition.name.value, made


def _generator(function: cst.FunctionDef, imported: Mapping[str, str]) -> Context | None:
    """A function that yields once, on a line of its own, under `@contextmanager` alone."""
    names = [full_name(one.decorator, imported) for one in function.decorators]
    yields = list(every(function.body, cst.Yield))
    closed = (*_INNER, cst.For, cst.While, cst.If)
    lines = every(function.body, cst.SimpleStatementLine, closed=closed)
    hole = next((line for line in lines if _is_yield(line)), None)
    if names != [_GENERATOR] or len(yields) != 1 or hole is None or usage.returns(function.body):
        return None
    value = yields[0].value
    result = value if isinstance(value, cst.BaseExpression) else None
    return Context(function, False, suites.below_docstring(function), hole, result)


def _is_yield(line: cst.SimpleStatementLine) -> bool:
    small = suites.alone(line)
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.Yield)


def _entered(cls: cst.ClassDef) -> Context | None:
    """A class without a base, with a constructor, `__enter__` and `__exit__` alone, none of which hands itself on."""
    methods = _methods_of_context(cls)
    if methods is None:
        return None
    made, entered, left = methods
    before, after = suites.below_docstring(entered), suites.below_docstring(left)
    before, result = result_apart(before)
    after = [line for line in after if not isinstance(suites.alone(line), cst.Return)]
    end = cst.Finally(suites.block(after or [nodes.statement("pass")]))
    enclosing: Statement = cst.Try(suites.block([nodes.statement("...")]), finalbody=end)
    owner = made.params.params[0].name.value
    freed = _AsNames(owner, _given_names(made, cls))
    lines = [*suites.below_docstring(made), *before, enclosing]
    body = suites.suite_of([one for line in lines if isinstance(one := line.visit(freed), cst.BaseStatement)])
    result = None if result is None or nodes.dotted(result) == owner else nodes.visited(result, freed)
    told = {one.name.value for one in left.params.params[1:]} & set(usage.loads(after))
    if told or owner in usage.loads(body) or (result is not None and owner in usage.loads(result)):
        return None
    hole = suites.suite_of(cst.ensure_type(body[-1], cst.Try).body.body)[0]
    return Context(made, True, body, hole, result)


def _methods_of_context(cls: cst.ClassDef) -> tuple[cst.FunctionDef, cst.FunctionDef, cst.FunctionDef] | None:
    """The three methods of such a class, each of which runs to its end; None of other classes."""
    methods = suites.methods_of(cls)
    rest = [one for one in cls.body.body if not isinstance(one, cst.FunctionDef) and not suites.is_docstring(one)]
    if rest or cls.bases or methods.keys() != {"__init__", "__enter__", "__exit__"}:
        return None
    made, entered, left = (methods[name] for name in ("__init__", "__enter__", "__exit__"))
    every_one = (made, entered, left)
    owners = {one.params.params[0].name.value if one.params.params else "" for one in every_one}
    inner = any(one.decorators or next(every(one.body, _INNER), None) is not None for one in every_one)
    ends = [usage.returns(one.body) for one in every_one]
    early = bool(ends[0]) or any(returns_early(suites.below_docstring(one)) for one in (entered, left))
    same = len(owners) == 1 and "" not in owners
    return None if inner or early or not same or any(map(_swallows, ends[2])) else every_one


def _swallows(one: cst.Return) -> bool:
    return one.value is not None and nodes.literal(one.value) not in (None, False)


def _given_names(init: cst.FunctionDef, cls: cst.ClassDef) -> dict[str, str]:
    """The attributes that are what the constructor is given, set nowhere else -> the parameters."""
    parameters = {one.name.value for one in init.params.params[1:]} - set(usage.stores(init.body))
    set_there = [name for line in every(cls, cst.Assign) for name in usage.attributes_assigned(line)]
    found: dict[str, str] = {}
    for line in suites.below_docstring(init):
        small = suites.alone(line)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            target, value = small.targets[0].target, small.value
            alone = isinstance(target, cst.Attribute) and set_there.count(target.attr.value) == 1
            if alone and isinstance(value, cst.Name) and value.value in parameters:
                found[cst.ensure_type(target, cst.Attribute).attr.value] = value.value
    return found


class _AsNames(cst.CSTTransformer):
    """The attributes of an object as names: by that of the parameter that they are, or by their own."""

    def __init__(self, owner: str, parameters: Mapping[str, str]) -> None:
        super().__init__()
        self.owner, self.parameters = owner, parameters

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        if isinstance(original_node.value, cst.Name) and original_node.value.value == self.owner:
            name = original_node.attr.value
            return nodes.name(self.parameters.get(name, name))
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        name, value = suites.name_and_value(updated_node)
        same = isinstance(value, cst.Name) and value.value == name
        return cst.RemoveFromParent() if same else updated_node


def opened(block: cst.With, contexts: Mapping[str, Context]) -> list[Statement] | None:
    """What stands for a block with such a context among its items; None for other blocks."""
    for at, item in enumerate(block.items):
        call = item.item
        context = contexts.get(nodes.dotted(call.func) or "") if isinstance(call, cst.Call) else None
        if context is None or not isinstance(call, cst.Call):
            continue
        inside = _inner(block, block.items[at + 1 :])
        made = _around(context, call, item.asname, inside, block)
        if made is not None and at:
            made = [_block(block, block.items[:at], made)]
        return None if made is None else suites.with_comments(made, block)
    return None


def _inner(block: cst.With, items: Sequence[cst.WithItem]) -> list[Statement]:
    inner = suites.suite_of(block.body.body)
    return [_block(block, items, inner)] if items else inner


def _block(block: cst.With, items: Sequence[cst.WithItem], inner: Sequence[Statement]) -> Statement:
    last = items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return block.with_changes(items=[*items[:-1], last], body=suites.block(inner), leading_lines=[])


def _around(
    context: Context, call: cst.Call, asname: cst.AsName | None, inside: list[Statement], block: cst.With
) -> list[Statement] | None:
    """The statements of a context around those that it encloses; None where they would not mean the same."""
    given = _given(context, call)
    if given is None:
        return None
    leaves = any(suites.may_leave(line) for line in inside)
    if leaves and not _ends_with(context.body, context.hole):
        return None
    taken = {one.value for one in every(block, cst.Name)}
    values, ahead = dict(given), list[Statement]()
    for name in sorted(set(usage.stores(context.body)) | {one for one in given if not is_plain(given[one])}):
        values[name] = nodes.name(usage.unused_name(name, taken))
        if name in given:
            ahead.append(nodes.statement("{n} = {v}", n=values[name], v=given[name]))
    if asname is not None:
        if context.result is None:
            return None
        value = nodes.substituted(context.result, values)
        target = cst.ensure_type(asname.name, cst.Name)
        if nodes.dotted(value) != target.value:
            inside = [nodes.statement("{n} = {v}", n=target, v=value), *inside]
    return [*ahead, *enclosing(context.body, context.hole, inside, values)]


def _given(context: Context, call: cst.Call) -> dict[str, Expr] | None:
    if not context.method:
        return given_to(context.head, call, method=False)
    params = context.head.params
    without = context.head.with_changes(params=params.with_changes(params=params.params[1:]))
    return given_to(without, call, method=False)


def _ends_with(body: Sequence[Statement], hole: Statement) -> bool:
    """Whether nothing comes after a statement but what runs however it is left."""
    last = body[-1]
    if last is hole:
        return True
    if isinstance(last, cst.Try):
        return not last.handlers and _ends_with(suites.suite_of(last.body.body), hole)
    return isinstance(last, cst.With) and _ends_with(suites.suite_of(last.body.body), hole)
