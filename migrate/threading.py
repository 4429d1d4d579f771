"""Signatures of functions that state is threaded through."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrate.kinds import Device
from migrate.script import KEY, FunctionFacts, State


def parameter_order(facts: FunctionFacts, name_of: Callable[[FunctionFacts, State], str]) -> list[str]:
    """The positional parameters of a function with its state: each piece right after the object that it belongs to, what
    belongs to no parameter in front, the random key last of those without a default."""
    order: list[str] = []
    pending = list(facts.states)
    for state in pending:
        if state.what != KEY and state.place.scope != facts.qualname:
            order.append(name_of(facts, state))
    placed = False
    for parameter in facts.node.params.params:
        name = parameter.name.value
        if isinstance(facts.params.get(name), Device):
            continue
        if parameter.default is not None and not placed:
            placed = True
            order += [name_of(facts, state) for state in pending if state.what == KEY]
        order.append(name)
        for state in pending:
            if state.what != KEY and state.place.scope == facts.qualname and state.place.name == name:
                order.append(name_of(facts, state))
    if not placed:
        order += [name_of(facts, state) for state in pending if state.what == KEY]
    return order


def threaded_parameters(
    facts: FunctionFacts, params: cst.Parameters, name_of: Callable[[FunctionFacts, State], str]
) -> cst.Parameters:
    """The parameters of a function with its state among them; devices disappear."""
    own = {parameter.name.value: parameter for parameter in params.params}
    made = []
    for name in parameter_order(facts, name_of):
        parameter = own.get(name) or cst.Param(cst.Name(name))
        made.append(parameter.with_changes(comma=cst.MaybeSentinel.DEFAULT))
    return params.with_changes(params=made)
