"""Inputs that a forward pass cannot do without: those without a default, those whose None it would trip over, and those
without which it would leave out parts that have weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import libcst as cst

from migrate.known.constructed import ClassNode, LayerNode
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Function, Module
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
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
    operands += [side for one in every(body, cst.Comparison) if _orders(one) for side in _sides(one)]
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
    """Whether code asks for the truth of a name, or whether it is some value, None perhaps."""
    tests: list[cst.CSTNode] = [one.test for one in every(body, (cst.If, cst.IfExp, cst.While, cst.Assert))]
    tests += every(body, (cst.BooleanOperation, cst.UnaryOperation, cst.Comparison))
    tests = [test for test in tests if not _orders(test)]
    return any(nodes.dotted(side) == name for test in tests for side in _sides(test))


def _orders(test: cst.CSTNode) -> bool:
    """Whether a comparison fails for None: `step > 1`."""
    ordering = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
    return isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, ordering)


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
