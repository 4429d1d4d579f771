"""Constructors that hand `**kwargs` on to a method of their class, `self._make_head(**kwargs)`.

The input is taken as if they named what that takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every


def with_keywords_named(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with parameters in the place of such `**kwargs`."""
    return [one.edited(_named(one.source.module)) if "**" in one.source.text else one for one in inputs]


def _named(module: cst.Module) -> Edits:
    edits = Edits()
    for cls in every(module, cst.ClassDef):
        methods = {f"self.{one.name.value}": one for one in cls.body.body if isinstance(one, cst.FunctionDef)}
        if "self.__init__" in methods:
            edits.parts |= dict(_told(methods["self.__init__"], methods))
    return edits


def _told(function: cst.FunctionDef, known: Mapping[str, cst.FunctionDef]) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The parameters of a constructor, and the call that it hands its keywords on in, with names for them; nothing
    where it reads them otherwise."""
    star = function.params.star_kwarg
    if star is None:
        return
    name = star.name.value
    calls = [call for call in usage.calls(function.body) if any(_hands_on(arg, name) for arg in call.args)]
    taking = known.get(nodes.dotted(calls[0].func) or "") if len(calls) == 1 else None
    if taking is None or taking is function or usage.loads(function.body).count(name) != 1:
        return
    call, params = calls[0], taking.params
    positional = params.params[1:]
    plain = not taking.decorators and params.star_kwarg is None and not isinstance(params.star_arg, cst.Param)
    if not plain or params.posonly_params or any(arg.star == "*" for arg in call.args):
        return
    rest = [arg for arg in call.args if not arg.star]
    given = argument_names(rest, [one.name.value for one in positional])
    own = function.params
    taken = {one.name.value for one in (*own.params, *own.kwonly_params)} | set(usage.stores(function.body))
    wanted = [one for one in (*positional, *params.kwonly_params) if one.name.value not in given]
    told = [one for one in wanted if one.name.value not in taken]
    if not told or any(one.default is None for one in wanted if one.name.value in taken):
        return
    if any(one.default is not None and nodes.literal(one.default) is ... for one in told):  # of another scope, maybe
        return
    keywords = {one.name.value: one.name for one in told}
    kwonly = [*own.kwonly_params, *(one.with_changes(annotation=None) for one in told)]
    star_arg = own.star_arg if isinstance(own.star_arg, cst.Param | cst.ParamStar) else cst.ParamStar()
    yield own, own.with_changes(star_kwarg=None, star_arg=star_arg, kwonly_params=nodes.separated(kwonly))
    yield call, call.with_changes(args=nodes.extended(rest, keywords))


def _hands_on(arg: cst.Arg, name: str) -> bool:
    return arg.star == "**" and nodes.dotted(arg.value) == name
