"""Models whose forward pass goes through other layers where an argument says so: `net(x, "a")`, `net(x, "b")`.

Flax makes the weights of the layers that a call goes through. The model is made by a call with each of the values that
the script gives:

params = net.init(key, x, method=lambda model, x: (model(x, "a"), model(x, "b")))["params"]

An optional argument that brings a part in, `net(x, label)`, is one of the example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.facts import Example, Way
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def needed(ways: Mapping[Way, frozenset[str]]) -> list[Way]:
    """Those of some ways without which a part would not be reached."""
    kept = dict(ways)
    for way, parts in ways.items():
        if any(parts <= others for other, others in kept.items() if other != way):
            del kept[way]
    return list(kept)


def with_values(example: Example, forward: cst.FunctionDef, ways: Sequence[Way]) -> Example:
    """An example with the first of some ways in place of what the call gives, which may be known to a loop alone."""
    names = [each.name.value for each in forward.params.params][1:]
    called = [name or (names[number] if number < len(names) else "") for number, name in enumerate(example.names)]
    first = {name: nodes.expression("0" if _of_row(value) else value) for name, value in ways[0]}
    given = zip(called, example.arguments, strict=True)
    return replace(example, arguments=tuple(first.get(name, argument) for name, argument in given))


def call_of_each(forward: cst.FunctionDef, given: Sequence[cst.Arg], ways: Sequence[Way]) -> list[cst.Arg] | None:
    """The arguments of an `init` that calls the model once on each way; None where the arguments of one call are not
    told apart."""
    names = [each.name.value for each in forward.params.params][1:]
    if any(arg.keyword is not None or arg.star for arg in given) or len(given) > len(names):
        return None
    placed, told = names[: len(given)], {name for way in ways for name, _ in way}
    left = [(name, arg) for name, arg in zip(placed, given, strict=True) if name not in told]
    rows = [way for way in ways if any(value.startswith("*") for _, value in way)]
    if rows:
        if len(told) > 1:
            return None
        ((name, over),) = rows[0]
        turn = cst.CompFor(nodes.name(name), nodes.expression(over[1:]))
        return _by_method(left, cst.ListComp(_model_call(placed, {name: nodes.name(name)}), turn))
    turns = [{name: nodes.expression(value) for name, value in way} for way in ways]
    if len(turns) == 1 and not whole_rows(ways):
        whole = [turns[0].get(name, arg.value) for name, arg in zip(placed, given, strict=True)]
        return nodes.arguments(whole, {name: value for name, value in turns[0].items() if name not in placed})
    calls = [_model_call(placed, turn) for turn in turns]
    return _by_method(left, nodes.tuple_of(calls) if len(calls) > 1 else calls[0])


def whole_rows(ways: Iterable[Way]) -> bool:
    """Whether some way is told by a row of the model's, which is known where that is called."""
    return any(_of_row(value) for way in ways for _, value in way)


def _of_row(value: str) -> bool:
    return "len(model." in value


def _model_call(placed: Sequence[str], turn: Mapping[str, Expr]) -> cst.Call:
    """`model(x, "a")`: the arguments by place are names but for those of this turn, whose others go by name."""
    rest = {name: value for name, value in turn.items() if name not in placed}
    return nodes.call("model", *(turn.get(name, nodes.name(name)) for name in placed), **rest)


def _by_method(given: Sequence[tuple[str, cst.Arg]], body: Expr) -> list[cst.Arg]:
    """The arguments of an `init` by `method=lambda model, x: ...`."""
    names = ("model", *(name for name, _ in given))
    function = cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)) for name in names]), body)
    return nodes.arguments([arg.value for _, arg in given], {"method": function})
