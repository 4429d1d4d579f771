"""Models whose forward pass goes through other layers where an argument says so: `net(x, "a")`, `net(x, "b")`.

Flax makes the weights of the layers that a call goes through. The model is made by a call with each of the values that
the script gives:

params = net.init(key, x, method=lambda model, x: (model(x, "a"), model(x, "b")))["params"]

An optional argument that brings a part in, `net(x, label)`, is one of the example.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.facts import Example
from migrate.lowering.expressions.arguments import argument_names
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.none_tests import asked_for_none
from migrate.syntax.walking import every

Used = Callable[[cst.CSTNode], set[str]]  # the parts with weights in some code


def parts_reached(
    forward: cst.FunctionDef, args: Sequence[cst.Arg], used: Used, keys: Callable[[str], Sequence[str]]
) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Of a call of a model: the parameters that tell alone through which parts with weights it goes, `if task == "a":`
    or `self.heads[task]`, with the literals that it gives them, and those parts. Of a part out of a row that the call
    does not tell by a literal, each that the row has. `keys`: those of a row, by the name of the attribute."""
    given = _given(forward, args)
    literals = {name: value for name, value in given.items() if nodes.literal(value) not in (..., None)}
    reached: dict[str, set[str]] = {}
    for test, sides in _choices(forward):
        name, parts = _tested(test), [used(side) for side in sides]
        if name in literals and parts[0] != parts[1]:
            holds = eval(nodes.code(test), {}, {name: nodes.literal(literals[name])})  # one name among literals
            reached.setdefault(name, set()).update(parts[0] if holds else parts[1])
    loops = [(loop.target, loop.iter) for loop in every(forward.body, (cst.For, cst.CompFor))]
    counted = {name: over for target, over in loops for name in usage.target_names(target)}
    for part in every(forward.body, cst.Subscript):
        index = part.slice[0].slice if len(part.slice) == 1 else None
        owner = nodes.dotted(part.value) or ""
        if not isinstance(index, cst.Index) or not owner.startswith("self.") or not used(part.value):
            continue
        name = nodes.code(index.value)
        times = _times(counted[name]) if name in counted else ""
        if times in literals:
            reached.setdefault(times, set()).add(f"{owner}[:{nodes.code(literals[times])}]")
        elif name in literals:
            reached.setdefault(name, set()).add(f"{owner}[{nodes.code(literals[name])}]")
        elif name in given:
            yield from ((name, key, frozenset({f"{owner}[{key}]"})) for key in keys(owner.removeprefix("self.")))
    for name, parts in reached.items():
        yield name, nodes.code(literals[name]), frozenset(parts)


def given_to(forward: cst.FunctionDef, args: Sequence[cst.Arg]) -> set[str]:
    """The parameters that are something in a call, as far as it shows, and not None."""
    return {name for name, value in _given(forward, args).items() if not nodes.is_literal(value, None)}


def parts_with(forward: cst.FunctionDef, used: Used) -> dict[str, set[str]]:
    """The parts with weights that a forward pass goes through where an argument is not None, by the name of that:
    `if label is not None: h = h + self.embedding(label)`."""
    found: dict[str, set[str]] = {}
    for test, sides in _choices(forward):
        asked = asked_for_none(test)
        if asked is not None:
            there, missing = (used(side) for side in (sides[::-1] if asked[1] else sides))
            found.setdefault(asked[0], set()).update(there - missing)
    return {name: parts for name, parts in found.items() if parts}


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


def with_values(example: Example, forward: cst.FunctionDef, values: Mapping[str, Sequence[str]]) -> Example:
    """An example with the first of some values in place of what the call gives, which may be known to a loop alone."""
    names = [each.name.value for each in forward.params.params][1:]
    called = [name or (names[number] if number < len(names) else "") for number, name in enumerate(example.names)]
    first = {name: nodes.expression("0" if keys[0].startswith("*") else keys[0]) for name, keys in values.items()}
    given = zip(called, example.arguments, strict=True)
    return replace(example, arguments=tuple(first.get(name, argument) for name, argument in given))


def _given(forward: cst.FunctionDef, args: Sequence[cst.Arg]) -> dict[str, Expr]:
    """What a call gives each parameter, or its default."""
    names = [each.name.value for each in forward.params.params][1:]
    every_parameter = [*forward.params.params, *forward.params.kwonly_params]
    given = {each.name.value: each.default for each in every_parameter if each.default is not None}
    return given | {name: arg.value for name, arg in zip(argument_names(args, names), args, strict=True) if name}


def _times(over: Expr) -> str:
    """The name of how many turns a loop over `range(depth)` takes; "" of other loops."""
    counts = isinstance(over, cst.Call) and nodes.dotted(over.func) == "range" and len(over.args) == 1
    return (nodes.dotted(over.args[0].value) or "") if isinstance(over, cst.Call) and counts else ""


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
    whole_rows = [(name, each[1:]) for name, keys in values.items() for each in keys if each.startswith("*")]
    if whole_rows and len(values) > 1:
        return None
    if whole_rows:
        name, over = whole_rows[0]
        turn = cst.CompFor(nodes.name(name), nodes.expression(over))
        return _by_method(left, cst.ListComp(_model_call(placed, {name: nodes.name(name)}), turn))
    turns = list(_turns(values))
    if len(turns) == 1:
        whole = [turns[0].get(name, arg.value) for name, arg in zip(placed, given, strict=True)]
        return nodes.arguments(whole, {name: value for name, value in turns[0].items() if name not in placed})
    return _by_method(left, nodes.tuple_of([_model_call(placed, turn) for turn in turns]))


def _model_call(placed: Sequence[str], turn: Mapping[str, Expr]) -> cst.Call:
    """`model(x, "a")`: the arguments by place are names but for those of this turn, whose others go by name."""
    rest = {name: value for name, value in turn.items() if name not in placed}
    return nodes.call("model", *(turn.get(name, nodes.name(name)) for name in placed), **rest)


def _by_method(given: Sequence[tuple[str, cst.Arg]], body: Expr) -> list[cst.Arg]:
    """The arguments of an `init` by `method=lambda model, x: ...`."""
    names = ("model", *(name for name, _ in given))
    function = cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)) for name in names]), body)
    return nodes.arguments([arg.value for _, arg in given], {"method": function})


def _turns(values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Expr]]:
    for turn in itertools.product(*values.values()):
        yield {name: nodes.expression(value) for name, value in zip(values, turn, strict=True)}
