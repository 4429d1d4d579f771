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


def deciding_parameters(forward: cst.FunctionDef, used: Callable[[cst.CSTNode], set[str]]) -> frozenset[str]:
    """The parameters of a forward pass that tell alone through which parts with weights it goes: `if task == "a":`,
    `self.heads[task]`. `used`: such parts in a piece of code."""
    parameters = {each.name.value for each in every(forward.params, cst.Param)} - {"self"}
    found = {name for test, sides in _choices(forward) if (name := _tested(test)) and used(sides[0]) != used(sides[1])}
    for part in every(forward.body, cst.Subscript):
        index = part.slice[0].slice if len(part.slice) == 1 else None
        if isinstance(index, cst.Index) and (nodes.dotted(part.value) or "").startswith("self.") and used(part.value):
            found.add(nodes.code(index.value))
    return frozenset(found & parameters)


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


def told(forward: cst.FunctionDef, args: Sequence[cst.Arg], parameter: str) -> str | None:
    """The literal that a call gives a parameter, or its default; None where that is no literal but None."""
    names = [each.name.value for each in forward.params.params][1:]
    placed = dict(zip(names, (arg.value for arg in args if arg.keyword is None and not arg.star), strict=False))
    named = {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}
    every_parameter = [*forward.params.params, *forward.params.kwonly_params]
    defaults = {each.name.value: each.default for each in every_parameter if each.default is not None}
    value = {**defaults, **placed, **named}.get(parameter)
    known = value is not None and nodes.literal(value) not in (..., None)
    return nodes.code(value) if known and value is not None else None


def call_of_each(
    forward: cst.FunctionDef, given: Sequence[cst.Arg], values: Mapping[str, Sequence[str]]
) -> list[cst.Arg] | None:
    """The arguments of an `init` that calls the model with each of some values; None where the arguments of one call
    are not told apart. `values`: parameters -> what the script gives them."""
    names = [each.name.value for each in forward.params.params][1:]
    if any(arg.keyword is not None or arg.star for arg in given) or len(given) > len(names):
        return None
    left = [(name, arg) for name, arg in zip(names, given, strict=False) if name not in values]
    placed = names[: len(given)]
    calls = [
        nodes.call(
            "model",
            *(turn.get(name, nodes.name(name)) for name in placed),
            **{name: value for name, value in turn.items() if name not in placed},
        )
        for turn in _turns(values)
    ]
    parameters = [cst.Param(cst.Name(name)) for name in ("model", *(name for name, _ in left))]
    function = cst.Lambda(cst.Parameters(parameters), nodes.tuple_of(calls))
    return nodes.arguments([arg.value for _, arg in left], {"method": function})


def _turns(values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Expr]]:
    for turn in itertools.product(*values.values()):
        yield {name: nodes.expression(value) for name, value in zip(values, turn, strict=True)}
