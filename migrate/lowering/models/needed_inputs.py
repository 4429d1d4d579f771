"""Inputs that a forward pass cannot do without: those without a default, those whose None it would trip over, and those
without which it would leave out parts that have weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import libcst as cst

from migrate.known.constructed import ClassNode, LayerNode
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Function, Module
from migrate.known.script import classes_in
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.initial.decided_calls import Used, parts_with
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every
from migrate.targets import linen


def needed_by(forward: cst.FunctionDef | None) -> list[str]:
    """The inputs without a default."""
    parameters = forward.params.params[1:] if forward is not None else []
    return [parameter.name.value for parameter in parameters if parameter.default is None]


def needed_of(scope: Scope, forward: FunctionFacts, args: Sequence[cst.Arg]) -> int:
    """How many of a call's arguments an example has: those without a default, and of the others that the call gives
    by position as long as the forward pass would fail without them."""
    count = max(len(needed_by(forward.node)), 1)
    parameters = forward.node.params.params[1:]
    for parameter, arg in zip(parameters[count:], args[count:], strict=False):
        if arg.keyword is not None or arg.star or not _fails(scope, forward, parameter.name.value):
            break
        count += 1
    return count


def of_layer(scope: Scope, cls: str, args: Sequence[cst.Arg]) -> list[cst.Arg]:
    """What an example has of the arguments of a call of a layer that is a model by itself: those that can be given by
    position. A mask that is given by its name would be another argument there, and has a default."""
    layer = scope.script.classes[cls].children.get("") if cls in scope.script.classes else None
    if not isinstance(layer, LayerNode) or any(arg.star for arg in args):
        return list(args)
    names = [parameter.name for parameter in linen.call_signature(TABLE[layer.torch])]
    given = dict(zip(argument_names(args, names), args, strict=True))
    return [cst.Arg(given[name].value) for name in takewhile(given.__contains__, names)]


def _fails(scope: Scope, function: FunctionFacts, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function reads attributes or elements of a parameter, or reckons with it, itself or in what it hands it
    on to, and never asks whether it is None."""
    body = function.node.body
    anew = [one for one in every(body, cst.SimpleStatementLine) if name in set(usage.stores(one)) - {*usage.loads(one)}]
    if function.qualname in seen or anew or _is_tested(body, name):
        return False
    receivers = [one.value for one in every(body, (cst.Attribute, cst.Subscript))]
    operands = [side for one in every(body, cst.BinaryOperation) for side in (one.left, one.right)]
    if any(nodes.dotted(one) == name for one in [*receivers, *operands]):
        return True
    return any(
        _fails(scope, taker, given, seen | {function.qualname})
        for call in usage.calls(body)
        for taker, names in _takers(scope, function, call)
        for arg, given in zip(call.args, argument_names(call.args, names), strict=True)
        if given and nodes.dotted(arg.value) == name
    )


def _takers(scope: Scope, function: FunctionFacts, call: cst.Call) -> list[tuple[FunctionFacts, list[str]]]:
    """The functions and forward passes of the script's that a call in a function runs, with what they can be given."""
    functions, path = scope.script.functions, nodes.dotted(call.func) or ""
    kind = scope.in_file_of(function.qualname).kind_of(call.func)
    found = [functions[kind.name]] if isinstance(kind, Function) and kind.name in functions else []
    takers = [(one, one.parameter_names) for one in found if not one.method]
    facts = scope.script.classes.get(function.qualname.rpartition(".")[0])
    part = facts.attributes.get(path.removeprefix("self.")) if facts is not None and path.startswith("self.") else None
    classes = [one.cls for one in part.options if isinstance(one, ClassNode)] if isinstance(part, Module) else []
    forwards = [functions[f"{cls}.forward"] for cls in classes if f"{cls}.forward" in functions]
    return [*takers, *((one, one.parameter_names[1:]) for one in forwards)]


def _is_tested(body: cst.CSTNode, name: str) -> bool:
    """Whether code asks for the truth of a name, or compares it."""
    tests: list[cst.CSTNode] = [one.test for one in every(body, (cst.If, cst.IfExp, cst.While, cst.Assert))]
    tests += every(body, (cst.BooleanOperation, cst.UnaryOperation, cst.Comparison))
    return any(nodes.dotted(side) == name for test in tests for side in _sides(test))


def _sides(test: cst.CSTNode) -> list[cst.CSTNode]:
    match test:
        case cst.BooleanOperation():
            return [test.left, test.right]
        case cst.Comparison():
            return [test.left, *(one.comparator for one in test.comparisons)]
        case cst.UnaryOperation():
            return [test.expression]
        case _:
            return [test]


def brought_in(
    scope: Scope,
    forward: FunctionFacts,
    used_of: Callable[[str], Used],
    known: dict[str, dict[str, set[str]]],
) -> dict[str, set[str]]:
    """The parts with weights that a forward pass, or one that it hands arguments on to, goes through where an argument
    is not None, by the parameters. `used_of`: of each class, what tells such parts. `known`: the forward passes that
    have been looked at, each once however often it is called."""
    if forward.qualname in known:
        return known[forward.qualname]
    found = known[forward.qualname] = parts_with(forward.node, used_of(forward.qualname.rpartition(".")[0]))
    for call in usage.calls(forward.node.body):
        for taker in _forwards_called(scope, forward, call):
            inside = brought_in(scope, taker, used_of, known)
            names = argument_names(call.args, taker.parameter_names[1:])
            for arg, inner in zip(call.args, names, strict=True):
                outer = nodes.dotted(arg.value)
                if outer in forward.parameter_names and inner in inside:
                    parts = [f"{taker.qualname}.{part}" for part in inside[inner]]
                    found.setdefault(outer, set()).update(parts)
    return found


def _forwards_called(scope: Scope, forward: FunctionFacts, call: cst.Call) -> list[FunctionFacts]:
    """The forward passes of the script's that a call of a part runs: of one, of one in a row, of each in a loop."""
    part = call.func.value if isinstance(call.func, cst.Subscript) else call.func
    if isinstance(part, cst.Name):
        loops = every(forward.node.body, (cst.For, cst.CompFor))
        part = next((loop.iter for loop in loops if part.value in usage.target_names(loop.target)), part)
    facts = scope.script.classes.get(forward.qualname.rpartition(".")[0])
    held = facts.children.get((nodes.dotted(part) or "").removeprefix("self.")) if facts is not None else None
    classes = classes_in(held) if held is not None else []
    found = (scope.script.functions.get(f"{cls}.forward") for cls in classes)
    return [one for one in found if one is not None]
