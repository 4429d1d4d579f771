"""Decorators of the script's own that switch the mode of a model, `@in_eval`: the statements of the function that one
makes, around those of the function that it is put on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.plainer.body_at_call import result_apart, returns_early
from migrate.lowering.plainer.enclosing import enclosing
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name
from migrate.syntax.modes import definitions, switches_modes
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_KEEPS_NAME = "functools.wraps"
_TRANSPARENT = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "staticmethod")
_INNER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


@dataclass(frozen=True)
class Wrapper:
    """What a decorator makes of a function: the function that calls it once, and the statement that does."""

    function: cst.FunctionDef
    call: cst.Call
    line: cst.SimpleStatementLine


def wrappers_of(module: cst.Module, imported: Mapping[str, str]) -> Iterator[tuple[str, Wrapper]]:
    """The decorators of a file that switch modes, by their names."""
    for function in definitions(module):
        if isinstance(function, cst.FunctionDef) and switches_modes(function) and not function.decorators:
            made = _wrapper(function, imported)
            if made is not None:
                yield function.name.value, made


def _wrapper(function: cst.FunctionDef, imported: Mapping[str, str]) -> Wrapper | None:
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
    return None if line is None or times != 1 or list(every(inner.body, _INNER)) else Wrapper(inner, called[0], line)


def _takes(line: cst.SimpleStatementLine, call: cst.Call) -> bool:
    """Whether a statement returns, names or drops what a call gives, and does nothing else."""
    small = suites.alone(line)
    if isinstance(small, cst.Assign):
        return small.value is call and bool(suites.name_and_value(line)[0])
    return isinstance(small, cst.Return | cst.Expr) and small.value is call


def unwrapped(
    function: cst.FunctionDef, wrappers: Mapping[str, Wrapper], imported: Mapping[str, str]
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
    body = enclosing(suites.below_docstring(wrapper.function), wrapper.line, inside, values)
    head = suites.suite_of(function.body.body)[:1]
    told = head if head and suites.is_docstring(head[0]) else []
    decorators = [*function.decorators[:at], *function.decorators[at + 1 :]]
    return function.with_changes(decorators=decorators, body=suites.block([*told, *body]))


def _parameters(wrapper: Wrapper, function: cst.FunctionDef) -> dict[str, Expr] | None:
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
    if returns_early(body):
        return None
    body, result = result_apart(body)
    name, _ = suites.name_and_value(line)
    value = nodes.name("None") if result is None else result
    return [*body, nodes.statement(f"{name} = {{v}}", v=value)] if name else body
