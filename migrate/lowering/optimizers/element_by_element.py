"""What a step of an optimizer may do with a parameter whose axes Flax has in another order than torch."""

from __future__ import annotations

from collections.abc import Sequence, Set

import libcst as cst

from migrate.known.kinds import Function
from migrate.lowering.scope import Scope
from migrate.rules.catalogue import RULES
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_ELEMENTWISE = frozenset((
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "addcmul", "addcdiv", "lerp", "where",
    "maximum", "minimum", "fmax", "fmin", "copy", "zero", "fill", "masked_fill", "float", "to", "type_as", "zeros_like",
    "ones_like", "full_like", "empty_like", "clone", "detach", "ge", "gt", "le", "lt", "eq", "ne", "greater", "less",
    "logical_and", "logical_or", "logical_not",
))  # fmt: skip
_NUMBERS = frozenset(("max", "min", "abs", "float", "int", "pow", "round"))
_OF_ALL = frozenset(("norm", "sum", "mean", "max", "min", "std", "var", "numel", "nelement", "prod", "item"))
_SHAPED = frozenset(("shape", "T", "mT", "H", "ndim"))


def works_on_axes(scope: Scope, body: Sequence[Statement], numbers: Set[str]) -> bool:
    """Whether the order of the axes may matter to a step. numbers: names of hyperparameters."""
    return any(
        not all(_is_elementwise(scope, call, numbers) for call in usage.calls(statement))
        or any(node.attr.value in _SHAPED for node in every(statement, cst.Attribute))
        or any(nodes.dotted(node.value) not in numbers for node in every(statement, cst.Subscript))
        or any(isinstance(node.operator, cst.MatrixMultiply) for node in every(statement, cst.BinaryOperation))
        for statement in body
    )


def _is_elementwise(scope: Scope, call: cst.Call, numbers: Set[str]) -> bool:
    """Whether a call works on each element by itself, or on all together."""
    torch = scope.torch_name(call.func)
    path = nodes.dotted(call.func) or ""
    if torch is None and path in _NUMBERS:
        return True
    if torch is None and path.partition(".")[0] in ("math", "np", "numpy") and path.count(".") == 1:
        return all(_is_number(arg.value) for arg in call.args) or path.startswith("math.")
    kind = scope.kind_of(call.func)
    if isinstance(kind, Function):
        node = scope.script.functions[kind.name].node
        return not works_on_axes(scope.in_file_of(kind.name), suites.suite_of(node.body.body), numbers)
    api = torch or (f"Tensor.{call.func.attr.value}" if isinstance(call.func, cst.Attribute) else "")
    method = api.rpartition(".")[2].rstrip("_")
    rule = RULES.get(api) or RULES.get(api.rstrip("_"))
    if method in _ELEMENTWISE or (rule is not None and rule.elementwise):
        return True
    if method in _OF_ALL:
        given = call.args if torch is None else call.args[1:]
        between = torch is not None and method in ("max", "min") and len(given) == 1
        named = {arg.keyword.value for arg in given if arg.keyword is not None}
        return between or (named <= {"p", "ord"} and (not given or (method == "norm" and len(given) == 1)))
    return False


def _is_number(node: Expr) -> bool:
    return isinstance(nodes.literal(node), int | float)
