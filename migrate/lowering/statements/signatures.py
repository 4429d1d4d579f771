"""Signatures of functions that state is threaded through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from migrate.known.facts import Draw, FunctionFacts
from migrate.known.kinds import VANISHING
from migrate.known.states import KEY, MODE, State
from migrate.syntax.nodes import Expr


def parameter_order(facts: FunctionFacts, name_of: Callable[[State], str]) -> list[str]:
    """The positional parameters of a function with its state: each piece right after the object that it belongs to,
    what belongs to no parameter in front, the random key and the mode last of those without a default. What belongs to
    a parameter with a default has none itself: it comes before all of those."""
    late = [state for state in facts.states if state.what in (KEY, MODE)]
    optional = facts.defaults.keys()
    apart = _of_keywords(facts)
    others = [state for state in facts.states if state.what not in (KEY, MODE) and state not in apart]
    order = facts.parameter_names[:1] if facts.method else []  # self
    own = [state for state in others if state.place.scope == facts.qualname and state.place.name in order]
    keys = [name_of(s) for s in others if s.place.scope == facts.qualname and s.place.name in optional]
    keys += map(name_of, late)
    order += [name_of(state) for state in [*own, *(s for s in others if s.place.scope != facts.qualname)]]
    for parameter in facts.node.params.params[1 if facts.method else 0 :]:
        name = parameter.name.value
        if isinstance(facts.params.get(name), VANISHING):
            continue
        if parameter.default is not None:
            order, keys = [*order, *keys], []
        order.append(name)
        if name not in optional:
            order += [name_of(s) for s in others if s.place.scope == facts.qualname and s.place.name == name]
    return [*order, *keys]


def _of_keywords(facts: FunctionFacts) -> list[State]:
    """The state of what is passed by keyword alone: so is it."""
    names = facts.keyword_names
    found = [state for state in facts.states if state.place.scope == facts.qualname and state.place.name in names]
    return [state for state in found if state.what not in (KEY, MODE)]


def threaded_parameters(
    facts: FunctionFacts, params: cst.Parameters, name_of: Callable[[State], str]
) -> cst.Parameters:
    """The parameters of a function with its state among them; devices disappear."""
    order = parameter_order(facts, name_of)
    apart = [cst.Param(cst.Name(name_of(state))) for state in _of_keywords(facts)]
    alone = [each for each in params.kwonly_params if not isinstance(facts.params.get(each.name.value), VANISHING)]
    if len(alone) < len(params.kwonly_params) or apart:
        alone = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in (*alone, *apart)]
        star = params.star_arg if alone or isinstance(params.star_arg, cst.Param) else cst.MaybeSentinel.DEFAULT
        params = params.with_changes(kwonly_params=alone, star_arg=star)
    if order == [parameter.name.value for parameter in params.params]:
        return params
    own = {parameter.name.value: parameter for parameter in params.params}
    made = []
    for name in order:
        parameter = own.get(name) or cst.Param(cst.Name(name))
        made.append(parameter.with_changes(comma=cst.MaybeSentinel.DEFAULT))
    return params.with_changes(params=made)


_NONE = cst.SimpleWhitespace("")


def with_mode(params: cst.Parameters) -> cst.Parameters:
    """The parameters of a function that builds modules, with the mode of what it builds."""
    return with_defaults(params, {"training": cst.Name("False")})


def with_defaults(params: cst.Parameters, added: Mapping[str, Expr]) -> cst.Parameters:
    """The parameters of a function with more that have a default."""
    equal = cst.AssignEqual(_NONE, _NONE)
    return _added(params, [cst.Param(cst.Name(name), default=value, equal=equal) for name, value in added.items()])


def with_draws(params: cst.Parameters, draws: Sequence[Draw]) -> cst.Parameters:
    """The parameters of a function with those for what its callers draw, which are passed by keyword."""
    return _added(params, [cst.Param(cst.Name(draw.name)) for draw in draws]) if draws else params


def _added(params: cst.Parameters, more: Sequence[cst.Param]) -> cst.Parameters:
    """More parameters at the end; after a star, or without a default after one, for keywords only."""
    defaults = any(param.default is not None for param in params.params)
    if isinstance(params.star_arg, cst.Param) or params.kwonly_params:
        return params.with_changes(kwonly_params=[*params.kwonly_params, *more])
    if defaults and any(param.default is None for param in more):
        return params.with_changes(star_arg=cst.ParamStar(), kwonly_params=list(more))
    return params.with_changes(params=[*params.params, *more])
