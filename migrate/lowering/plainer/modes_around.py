"""What decorators and contexts of the script's own do with the modes of models, written out around what they enclose.

`@in_eval` on a function, `with evaluating(model):` of a generator function, or of a class with `__enter__` and
`__exit__`: which mode a forward pass is in shows where it stands only once their statements stand around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.known.states import MODES
from migrate.lowering.plainer.body_at_call import given_to, is_plain
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.modes import switches_modes
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_GENERATOR = "contextlib.contextmanager"
_KEEPS_NAME = "functools.wraps"
_TRANSPARENT = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "staticmethod")
_INNER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


def with_modes_written_out(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with the statements of those decorators and contexts in the place of their use."""
    return [_written_out(one) if _may_switch(one.source.text) else one for one in inputs]


def _may_switch(text: str) -> bool:
    return any(f".{mode}(" in text for mode in MODES) and any(word in text for word in ("yield", "__enter__", "@"))


def _written_out(one: Input) -> Input:
    """Contexts first, then the decorators of functions: each edit is of a tree of its own."""
    module = one.source.module
    imported = imported_names(module)
    contexts = dict(_contexts(module, imported))
    edits = Edits()
    for block in every(module, cst.With):
        if not any(inner in edits.instead for inner in every(block, cst.With)) and (made := _opened(block, contexts)):
            edits.instead[block] = made
    if edits:
        return _written_out(one.edited(edits))
    wrappers = dict(_wrappers(module, imported))
    for function in every(module, cst.FunctionDef):
        if made := _unwrapped(function, wrappers, imported):
            edits.instead[function] = [made]
    one = one.edited(edits)
    body = suites.suite_of(one.source.module.body)
    unread = [line for line in _definitions(one.source.module) if line.name.value in {*contexts, *wrappers}]
    unread = [
        line for line in unread if not any(line.name.value in usage.loads(other) for other in body if other is not line)
    ]
    return one.edited(Edits(instead={line: [] for line in unread}))


def _definitions(module: cst.Module) -> list[cst.FunctionDef | cst.ClassDef]:
    return [line for line in module.body if isinstance(line, cst.FunctionDef | cst.ClassDef)]


# -- contexts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Context:
    """A context of the script's own: what is given to it, its statements, and the one of them that stands for what it
    encloses; `result` is what that has by `as`."""

    head: cst.FunctionDef  # whose parameters it takes
    method: bool
    body: list[Statement]
    hole: Statement
    result: Expr | None


def _contexts(module: cst.Module, imported: Mapping[str, str]) -> Iterator[tuple[str, _Context]]:
    for definition in _definitions(module):
        if switches_modes(definition):
            one = isinstance(definition, cst.FunctionDef)
            made = _generator(definition, imported) if one else _entered(definition)
            if made is not None:
                yield definition.name.value, made


def _generator(function: cst.FunctionDef, imported: Mapping[str, str]) -> _Context | None:
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
    return _Context(function, False, suites.below_docstring(function), hole, result)


def _is_yield(line: cst.SimpleStatementLine) -> bool:
    small = suites.alone(line)
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.Yield)


def _entered(cls: cst.ClassDef) -> _Context | None:
    """A class without a base, with a constructor, `__enter__` and `__exit__` alone, none of which hands itself on."""
    methods = _methods_of_context(cls)
    if methods is None:
        return None
    made, entered, left = methods
    before, after = suites.below_docstring(entered), suites.below_docstring(left)
    last = suites.alone(before[-1]) if before else None
    result = last.value if isinstance(last, cst.Return) else None
    before = before[:-1] if isinstance(last, cst.Return) else before
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
    return _Context(made, True, body, hole, result)


def _methods_of_context(cls: cst.ClassDef) -> tuple[cst.FunctionDef, cst.FunctionDef, cst.FunctionDef] | None:
    """The three methods of such a class, each of which runs to its end; None of other classes."""
    methods = {one.name.value: one for one in cls.body.body if isinstance(one, cst.FunctionDef)}
    rest = [one for one in cls.body.body if not isinstance(one, cst.FunctionDef) and not suites.is_docstring(one)]
    if rest or cls.bases or methods.keys() != {"__init__", "__enter__", "__exit__"}:
        return None
    made, entered, left = (methods[name] for name in ("__init__", "__enter__", "__exit__"))
    every_one = (made, entered, left)
    owners = {one.params.params[0].name.value if one.params.params else "" for one in every_one}
    inner = any(one.decorators or next(every(one.body, _INNER), None) is not None for one in every_one)
    ends = [usage.returns(one.body) for one in every_one]
    early = bool(ends[0]) or any(_is_early(one, found) for one, found in zip(every_one[1:], ends[1:], strict=True))
    same = len(owners) == 1 and "" not in owners
    return None if inner or early or not same or any(map(_swallows, ends[2])) else every_one


def _is_early(method: cst.FunctionDef, ends: Sequence[cst.Return]) -> bool:
    """Whether a method returns anywhere but in its last statement."""
    body = suites.below_docstring(method)
    return len(ends) > 1 or (bool(ends) and suites.alone(body[-1]) is not ends[0])


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


def _opened(block: cst.With, contexts: Mapping[str, _Context]) -> list[Statement] | None:
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
    context: _Context, call: cst.Call, asname: cst.AsName | None, inside: list[Statement], block: cst.With
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
    return [*ahead, *_filled(context.body, context.hole, inside, values)]


def _given(context: _Context, call: cst.Call) -> dict[str, Expr] | None:
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


def _filled(
    body: Sequence[Statement], hole: Statement, inside: Sequence[Statement], values: Mapping[str, Expr]
) -> list[Statement]:
    """The statements of a body by other names, with others in the place of one of them."""
    marked = [_Hole(hole, []).put(line) for line in body]
    named = [nodes.substituted(line, values).deep_clone() for line in marked]
    return [made for line in named for made in _filling(line, inside)]


_MARK = "__enclosed__"


class _Hole(cst.CSTTransformer):
    """Marks a statement, or puts others in the place of the mark."""

    def __init__(self, hole: Statement | None, inside: Sequence[Statement]) -> None:
        self.hole, self.inside = hole, inside

    def put(self, line: Statement) -> Statement:
        return nodes.statement(_MARK) if line is self.hole else nodes.visited(line, self)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        if self.hole is not None:
            return nodes.statement(_MARK) if original_node is self.hole else updated_node
        if isinstance(updated_node, cst.IndentedBlock):
            body = [made for line in suites.suite_of(updated_node.body) for made in _put(line, self.inside)]
            return updated_node.with_changes(body=body)
        return updated_node


def _put(line: Statement, inside: Sequence[Statement]) -> Sequence[Statement]:
    small = suites.alone(line)
    marked = isinstance(small, cst.Expr) and nodes.dotted(small.value) == _MARK
    return suites.with_comments(list(inside), line) if marked else [line]


def _filling(line: Statement, inside: Sequence[Statement]) -> Sequence[Statement]:
    return [nodes.visited(one, _Hole(None, inside)) if one is line else one for one in _put(line, inside)]


# -- decorators -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wrapper:
    """What a decorator makes of a function: the function that calls it once, and the statement that does."""

    function: cst.FunctionDef
    call: cst.Call
    line: cst.SimpleStatementLine


def _wrappers(module: cst.Module, imported: Mapping[str, str]) -> Iterator[tuple[str, _Wrapper]]:
    for function in _definitions(module):
        if isinstance(function, cst.FunctionDef) and switches_modes(function) and not function.decorators:
            made = _wrapper(function, imported)
            if made is not None:
                yield function.name.value, made


def _wrapper(function: cst.FunctionDef, imported: Mapping[str, str]) -> _Wrapper | None:
    body, params = suites.below_docstring(function), function.params
    if len(body) != 2 or len(params.params) != 1 or params.star_kwarg or params.kwonly_params:
        return None
    inner, last = body[0], suites.alone(body[1])
    wrapped = params.params[0].name.value
    if not isinstance(inner, cst.FunctionDef) or not isinstance(last, cst.Return) or last.value is None:
        return None
    keeps = all(
        isinstance(one.decorator, cst.Call) and full_name(one.decorator.func, imported) == _KEEPS_NAME
        for one in inner.decorators
    )
    called = [one for one in usage.calls(inner.body) if nodes.dotted(one.func) == wrapped]
    if nodes.dotted(last.value) != inner.name.value or not keeps or len(called) != 1:
        return None
    times = usage.loads(inner.body).count(wrapped)
    lines = every(inner.body, cst.SimpleStatementLine, closed=(*_INNER, cst.For, cst.While))
    line = next((each for each in lines if _takes(each, called[0])), None)
    return None if line is None or times != 1 or list(every(inner.body, _INNER)) else _Wrapper(inner, called[0], line)


def _takes(line: cst.SimpleStatementLine, call: cst.Call) -> bool:
    """Whether a statement returns, names or drops what a call gives, and does nothing else."""
    small = suites.alone(line)
    if isinstance(small, cst.Assign):
        return small.value is call and bool(suites.name_and_value(line)[0])
    return isinstance(small, cst.Return | cst.Expr) and small.value is call


def _unwrapped(
    function: cst.FunctionDef, wrappers: Mapping[str, _Wrapper], imported: Mapping[str, str]
) -> cst.FunctionDef | None:
    """A function with the statements of its innermost such decorator around its own; None where it has none, or where
    they would not mean the same."""
    at = max((n for n, one in enumerate(function.decorators) if nodes.dotted(one.decorator) in wrappers), default=-1)
    below = [one.decorator for one in function.decorators[at + 1 :]]
    plain = all(full_name(one.func if isinstance(one, cst.Call) else one, imported) in _TRANSPARENT for one in below)
    if at < 0 or not plain:
        return None
    wrapper = wrappers[nodes.dotted(function.decorators[at].decorator) or ""]
    values = _parameters(wrapper, function)
    inside = _in_place_of(wrapper.line, suites.below_docstring(function))
    if values is None or inside is None or any(True for _ in every(function.body, cst.Yield)):
        return None
    own = {one.value for one in every(function, cst.Name)}
    for name in sorted(set(usage.stores(wrapper.function.body)) - values.keys()):
        values[name] = nodes.name(usage.unused_name(name, own))
    body = _filled(suites.below_docstring(wrapper.function), wrapper.line, inside, values)
    head = suites.suite_of(function.body.body)[:1]
    told = head if head and suites.is_docstring(head[0]) else []
    decorators = [*function.decorators[:at], *function.decorators[at + 1 :]]
    return function.with_changes(decorators=decorators, body=suites.block([*told, *body]))


def _parameters(wrapper: _Wrapper, function: cst.FunctionDef) -> dict[str, Expr] | None:
    """What the parameters of the wrapper are in the function; None where it hands on others than it is given."""
    outer, inner = wrapper.function.params, function.params
    if inner.kwonly_params or inner.posonly_params or isinstance(inner.star_arg, cst.Param) or inner.star_kwarg:
        return None
    names = [one.name.value for one in outer.params]
    stars = [outer.star_arg.name.value] if isinstance(outer.star_arg, cst.Param) else []
    kwargs = [outer.star_kwarg.name.value] if outer.star_kwarg else []
    given = [f"{arg.star}{nodes.dotted(arg.value)}" for arg in wrapper.call.args if arg.keyword is None]
    wanted = [*names, *(f"*{one}" for one in stars), *(f"**{one}" for one in kwargs)]
    enough = len(names) == len(inner.params) or (len(names) < len(inner.params) and bool(stars))
    read = usage.loads(wrapper.function.body)
    alone = all(read.count(one) == 1 for one in (*stars, *kwargs))
    bound = set(usage.stores(wrapper.function.body)) & {*names, *stars, *kwargs}
    if given != wanted or len(given) != len(wrapper.call.args) or not enough or not alone or bound:
        return None
    return {name: nodes.name(one.name.value) for name, one in zip(names, inner.params, strict=False)}


def _in_place_of(line: cst.SimpleStatementLine, body: list[Statement]) -> list[Statement] | None:
    """The statements of a function in the place of the one that calls it; None where it returns in between."""
    small = suites.alone(line)
    if isinstance(small, cst.Return):
        return body
    ends = [end for one in body for end in usage.returns(one)]
    last = suites.alone(body[-1]) if body else None
    if len(ends) > 1 or (ends and last is not ends[0]):
        return None
    name, _ = suites.name_and_value(line)
    value = last.value if isinstance(last, cst.Return) and last.value is not None else nodes.name("None")
    body = body[:-1] if isinstance(last, cst.Return) else body
    return [*body, nodes.statement(f"{name} = {{v}}", v=value)] if name else body
