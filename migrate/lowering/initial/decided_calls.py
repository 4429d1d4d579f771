"""Models whose forward pass goes through other layers where an argument says so: `net(x, "a")`, `net(x, "b")`.

Flax makes the weights of the layers that a call goes through. The model is made by a call with each of the values that
the script gives:

params = net.init(key, x, method=lambda model, x: (model(x, "a"), model(x, "b")))["params"]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def parts_reached(
    forward: cst.FunctionDef, args: Sequence[cst.Arg], used: Callable[[cst.CSTNode], set[str]]
) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Of a call of a model: the parameters that tell alone through which parts with weights it goes, `if task == "a":`
    or `self.heads[task]`, with the literals that it gives them, and those parts. `used`: such parts in some code."""
    reached: dict[str, set[str]] = {}
    given = {each.name.value: _given(forward, args, each.name.value) for each in every(forward.params, cst.Param)}
    for test, sides in _choices(forward):
        name, parts = _tested(test), [used(side) for side in sides]
        value = given.get(name)
        if value is not None and parts[0] != parts[1]:
            holds = eval(nodes.code(test), {}, {name: nodes.literal(value)})  # one name among literals
            reached.setdefault(name, set()).update(parts[0] if holds else parts[1])
    for part in every(forward.body, cst.Subscript):
        index = part.slice[0].slice if len(part.slice) == 1 else None
        value = given.get(nodes.code(index.value)) if isinstance(index, cst.Index) else None
        owner = nodes.dotted(part.value) or ""
        if isinstance(index, cst.Index) and value is not None and owner.startswith("self.") and used(part.value):
            reached.setdefault(nodes.code(index.value), set()).add(f"{owner}[{nodes.code(value)}]")
    for name, parts in reached.items():
        value = given[name]
        assert value is not None
        yield name, nodes.code(value), frozenset(parts)


def needed(values: Mapping[str, frozenset[str]]) -> list[str]:
    """Those of some values without which a part would not be reached."""
    kept = dict(values)
    for value, parts in values.items():
        if any(parts <= others for other, others in kept.items() if other != value):
            del kept[value]
    return list(kept)


def _choices(forward: cst.FunctionDef) -> Iterator[tuple[Expr, tuple[cst.CSTNode, cst.CSTNode]]]:
    """The tests of a forward pass with their two sides: behind one that ends it the other one goes on."""
    for choice in every(forward.body, cst.IfExp):
        yield choice.test, (choice.body, choice.orelse)
    for block in every(forward, cst.IndentedBlock):
        statements = suites.suite_of(block.body)
        for number, branch in enumerate(statements):
            if not isinstance(branch, cst.If):
                continue
            body, orelse = suites.sides(branch)
            following = statements[number + 1 :]
            first = body if suites.exits(body) else [*body, *following]
            second = orelse if orelse and suites.exits(orelse) else [*orelse, *following]
            yield branch.test, (cst.Module(first), cst.Module(second))


def _tested(test: Expr) -> str:
    """The one name that a test asks for; "" for tests of more."""
    names = set(usage.loads(test))
    plain = len(names) == 1 and not usage.calls(test) and not usage.attributes(test)
    return names.pop() if plain else ""


def _given(forward: cst.FunctionDef, args: Sequence[cst.Arg], parameter: str) -> Expr | None:
    """The literal that a call gives a parameter, or its default; None where that is no literal but None."""
    names = [each.name.value for each in forward.params.params][1:]
    placed = dict(zip(names, (arg.value for arg in args if arg.keyword is None and not arg.star), strict=False))
    named = {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}
    every_parameter = [*forward.params.params, *forward.params.kwonly_params]
    defaults = {each.name.value: each.default for each in every_parameter if each.default is not None}
    value = {**defaults, **placed, **named}.get(parameter)
    return None if value is None or nodes.literal(value) in (..., None) else value


def call_of_each(
    forward: cst.FunctionDef, given: Sequence[cst.Arg], values: Mapping[str, Sequence[str]]
) -> list[cst.Arg] | None:
    """The arguments of an `init` that calls the model with each of some values; None where the arguments of one call
    are not told apart. `values`: parameters -> what the script gives them."""
    names = [each.name.value for each in forward.params.params][1:]
    if any(arg.keyword is not None or arg.star for arg in given) or len(given) > len(names):
        return None
    placed = names[: len(given)]
    left = [(name, arg) for name, arg in zip(placed, given, strict=True) if name not in values]
    turns = list(_turns(values))
    if len(turns) == 1:
        whole = [turns[0].get(name, arg.value) for name, arg in zip(placed, given, strict=True)]
        return nodes.arguments(whole, {name: value for name, value in turns[0].items() if name not in placed})
    calls = [
        nodes.call(
            "model",
            *(turn.get(name, nodes.name(name)) for name in placed),
            **{name: value for name, value in turn.items() if name not in placed},
        )
        for turn in turns
    ]
    parameters = [cst.Param(cst.Name(name)) for name in ("model", *(name for name, _ in left))]
    function = cst.Lambda(cst.Parameters(parameters), nodes.tuple_of(calls))
    return nodes.arguments([arg.value for _, arg in left], {"method": function})


def _turns(values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Expr]]:
    for turn in itertools.product(*values.values()):
        yield {name: nodes.expression(value) for name, value in zip(values, turn, strict=True)}
