"""Numbers of tensors in what jit traces: `count = mask.sum().item()`. jit does not know their values; one that a
function does no more with than to return it stays the array that it is of, and its callers ask that. So does one that
a fraction is made of, `count / len(mask)`: a number and an array give the same there."""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every


def number_told(scope: Scope, node: cst.Call, base: Value) -> Value:
    """What `x.item()` is where jit traces it. Raises Unsupported MIG307."""
    kind = base.kind
    if isinstance(kind, Tensor) and (
        kind.dtype == "float"
        or (kind.dtype in ("int", "") and (_only_returned(scope, node) or _in_fraction(scope, node)))
    ):
        x = layouts.first(base)
        if scope.facts is not None:
            scope.facts.asks_numbers = True
        return Value(x if kind.dtype == "int" else nodes.call("jax.lax.stop_gradient", x), Tensor(kind.dtype, 0))
    raise Unsupported("MIG307", ".item() of a tensor whose values jit does not know")


def _only_returned(scope: Scope, node: cst.Call) -> bool:
    """Whether the statement at hand gives a name to a number that is an element of what the function returns, and is
    read nowhere else."""
    block = scope.blocks[-1] if scope.blocks else None
    small = suites.alone(block.statements[block.index]) if block is not None else None
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    if not isinstance(target, cst.Name) or not isinstance(small, cst.Assign) or scope.facts is None:
        return False
    body, name = scope.facts.node.body, target.value
    returned = [one for line in every(body, cst.Return) if line.value is not None for one in _elements(line.value)]
    told = sum(nodes.dotted(one) == name for one in returned)
    once = usage.stores(body).count(name) == 1 and usage.loads(body).count(name) == told > 0
    return once and nodes.code(small.value) == nodes.code(node)


def _in_fraction(scope: Scope, node: cst.Call) -> bool:
    """Whether the statement at hand makes nothing but fractions of a number, or names it for later ones."""
    block = scope.blocks[-1] if scope.blocks else None
    if block is None:
        return False
    statement, text = block.statements[block.index], nodes.code(node)
    name, value = suites.name_and_value(statement)
    if name and value is not None and nodes.code(value) == text and scope.facts is not None:
        body = scope.facts.node.body
        read = usage.loads(body).count(name)
        return usage.stores(body).count(name) == 1 and _parts_of_fractions(body, name) == read > 0
    times = sum(nodes.code(one) == text for one in every(statement, cst.Call))
    return _parts_of_fractions(statement, text) == times


def _parts_of_fractions(node: cst.CSTNode, text: str) -> int:
    """How often an expression is divided, or divides, or is the factor of a fraction that is written out."""
    times = 0
    for one in every(node, cst.BinaryOperation):
        pair = [one.left, one.right]
        fraction = isinstance(one.operator, cst.Multiply) and any(isinstance(each, cst.Float) for each in pair)
        if fraction or isinstance(one.operator, cst.Divide):
            times += sum(nodes.code(each) == text for each in pair)
    return times


def _elements(value: nodes.Expr) -> list[nodes.Expr]:
    """What a function returns, one by one."""
    if isinstance(value, cst.Tuple | cst.List):
        return [one for element in value.elements for one in _elements(element.value)]
    if isinstance(value, cst.Dict):
        return [element.value for element in value.elements if isinstance(element, cst.DictElement)]
    return [value]
